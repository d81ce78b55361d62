package driver

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"weft/internal/state"
)

func TestPortsOfASwitchAreFoundByTheirNames(t *testing.T) {
	for name, want := range map[string]int{"p0": 1, "p6": 7, "": 0, "lan1": 0, "p": 0, "p-1": 0, "p3s0": 0, "p300": 0} {
		if got := PortNumber(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

func TestASwitchIsFoundInSysfs(t *testing.T) {
	sys := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		file = filepath.Join(sys, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("eth0/dsa/tagging", "mtk\n")
	write("lan1/phys_port_name", "p1\n")
	names := map[int]string{2: "eth0", 3: "lan1"}
	port := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{ParentIndex: 2, NetNsID: -1}, LinkType: SwitchPort}
	for _, v := range []struct {
		link netlink.Link
		want state.LinkFact
	}{
		{&netlink.Device{}, state.LinkFact{Name: "eth0", Tagging: "mtk"}},
		{&netlink.Device{}, state.LinkFact{Name: "eth1"}},
		{port, state.LinkFact{Name: "lan1", Lower: "eth0", Port: 2}},
		{port, state.LinkFact{Name: "lan9", Lower: "eth0"}},
	} {
		got := state.LinkFact{Name: v.want.Name}
		if SwitchFacts(&got, v.link, names, sys); got.Lower != v.want.Lower || got.Port != v.want.Port || got.Tagging != v.want.Tagging {
			t.Errorf("%+v, want %+v", got, v.want)
		}
	}
}
