package alltables

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// The device of a PPP session goes and comes with it, under another number. The
// verifier is not asked again: that takes seconds on a weak router.
func TestADeviceThatComesBackGetsTheProgramThatIsThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	space := spacetest.New(t, "back")
	d := openChoice(t, choice{"back", homeRouter(), state.RouteTables{}})
	a := state.Attachment{Device: "ppp0", Hook: state.HookEgress, Program: "flow_session_egress", Build: "b"}
	var seen []ebpf.ProgramID
	for number := 20; number < 23; number++ {
		err := space.Do(func() error {
			veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
			veth.Name, veth.Index = a.Device, number
			if err := netlink.LinkAdd(veth); err != nil {
				return err
			}
			if err := d.Apply(t.Context(), state.Step{Op: state.Add, Object: a}); err != nil {
				return err
			}
			l, err := link.LoadPinnedLink(filepath.Join(d.Dir(), "links", fmt.Sprintf("%d-%s-%s", number, a.Program, a.Build)), nil)
			if err != nil {
				return err
			}
			info, err := l.Info()
			if err != nil {
				return errors.Join(err, l.Close())
			}
			seen = append(seen, info.Program)
			return errors.Join(l.Close(), netlink.LinkDel(veth))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(slices.Compact(seen)) != 1 {
		t.Errorf("the device got programs %v, want one that is loaded once", seen)
	}
}
