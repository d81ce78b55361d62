package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestModulesAreLoadedAfterWhatTheyDependOn(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "modules.dep"), strings.Join([]string{
		"kernel/net/l2tp/l2tp_ppp.ko.xz: kernel/net/l2tp/l2tp_core.ko.xz kernel/net/ipv4/udp_tunnel.ko.xz kernel/net/ipv6/ip6_udp_tunnel.ko.xz",
		"kernel/net/l2tp/l2tp_core.ko.xz: kernel/net/ipv4/udp_tunnel.ko.xz kernel/net/ipv6/ip6_udp_tunnel.ko.xz",
		"kernel/net/ipv4/udp_tunnel.ko.xz:", "kernel/net/ipv6/ip6_udp_tunnel.ko.xz:",
		"kernel/net/batman-adv/batman-adv.ko:", "",
	}, "\n"))
	write(t, filepath.Join(dir, "modules.builtin"), "kernel/net/unix/unix.ko\n")
	tree, err := readModuleTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ names, want string }{
		{"", ""},
		{"unix", ""},
		{"batman_adv", "batman-adv.ko"},
		{"batman-adv", "batman-adv.ko"},
		{"l2tp_ppp", "ip6_udp_tunnel.ko.xz udp_tunnel.ko.xz l2tp_core.ko.xz l2tp_ppp.ko.xz"},
		{"udp_tunnel l2tp_core l2tp_ppp", "udp_tunnel.ko.xz ip6_udp_tunnel.ko.xz l2tp_core.ko.xz l2tp_ppp.ko.xz"},
	} {
		paths, err := tree.order(strings.Fields(c.names))
		var got []string
		for _, p := range paths {
			got = append(got, filepath.Base(p))
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q, %v; want %q", c.names, got, err, c.want)
		}
	}
	if _, err := tree.order([]string{"nonsense"}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a module that is not there: %v", err)
	}
}

func TestTheNewestKernelThatFitsIsTaken(t *testing.T) {
	root := t.TempDir()
	for _, v := range []string{"6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.117+deb12-amd64", "6.12.9+deb12-amd64"} {
		write(t, filepath.Join(root, "boot/vmlinuz-"+v), "")
	}
	for prefix, want := range map[string]string{"6.1": "6.1.0-56-amd64", "6.12": "6.12.117+deb12-amd64", "6.12.9": "6.12.9+deb12-amd64", "6": "6.12.117+deb12-amd64"} {
		image, modules, err := debianKernel(root, prefix)
		if err != nil || image != filepath.Join(root, "boot/vmlinuz-"+want) || modules != filepath.Join(root, "lib/modules", want) {
			t.Errorf("%s: %s, %s, %v", prefix, image, modules, err)
		}
	}
	for prefix, want := range map[string]string{"6.6": "linux-image-6.6-amd64", "6.1.99": "linux-image-amd64"} {
		if _, _, err := debianKernel(root, prefix); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want the package %s named", prefix, err, want)
		}
	}
}

func TestTheArchiveIsWhatCpioReads(t *testing.T) {
	var b bytes.Buffer
	a := newArchive(&b)
	a.file("/etc/deep/one", 0o600, []byte("odd"))
	a.symlink("/bin/sh", "busybox")
	a.directory("/etc")
	a.file("/etc/deep/one", 0o600, []byte("a second is ignored"))
	a.file("/empty", 0o755, nil)
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Fatal("install the Debian package cpio: ", err)
	}
	dir := t.TempDir()
	cmd := exec.Command(cpio, "--quiet", "-idm", "-H", "newc")
	cmd.Dir, cmd.Stdin = dir, &b
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "etc/deep/one")); string(content) != "odd" {
		t.Errorf("one: %q, %v", content, err)
	}
	if target, err := os.Readlink(filepath.Join(dir, "bin/sh")); target != "busybox" {
		t.Errorf("sh: %q, %v", target, err)
	}
	if st, err := os.Stat(filepath.Join(dir, "empty")); err != nil || st.Mode() != 0o755 || st.Size() != 0 {
		t.Errorf("empty: %v, %v", st, err)
	}
}

// bzImage is the least that payload accepts.
func bzImage(compressed []byte) []byte {
	image := make([]byte, 3*512)
	image[0x1f1] = 1
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(image[0x206:], 0x020f)
	binary.LittleEndian.PutUint32(image[0x248:], 512)
	binary.LittleEndian.PutUint32(image[0x24c:], uint32(len(compressed)+4))
	return append(append(image, compressed...), 1, 2, 3, 4)
}

func TestTheCompressedKernelIsFoundInItsImage(t *testing.T) {
	for program, magic := range map[string]string{"xz": "\xfd7zXZ\x00", "zstd": "\x28\xb5\x2f\xfd", "gzip": "\x1f\x8b"} {
		content := []byte(magic + "kernel")
		got, unpacker, err := payload(bzImage(content))
		if err != nil || unpacker != program || !bytes.Equal(got, content) {
			t.Errorf("%s: %q, %s, %v", program, got, unpacker, err)
		}
	}
	whole := bzImage([]byte("\x1f\x8bkernel"))
	for n := range whole {
		if _, _, err := payload(whole[:n]); !errors.Is(err, errAsItIs) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
	if _, _, err := payload(bzImage([]byte("\x89LZOkernel"))); !errors.Is(err, errAsItIs) {
		t.Errorf("LZO: %v", err)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add(bzImage([]byte("\x1f\x8bkernel")))
	f.Fuzz(func(t *testing.T, image []byte) {
		got, _, err := payload(image)
		if err == nil && !bytes.Contains(image, got) {
			t.Error("a payload from elsewhere")
		}
	})
}

func TestSysctlNamesAreReadAsSysctlDoes(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.ip_forward":            "net/ipv4/ip_forward",
		"net.ipv4.conf.eth0/7.rp_filter": "net/ipv4/conf/eth0.7/rp_filter",
		"net/ipv4/conf/eth0.7/rp_filter": "net/ipv4/conf/eth0.7/rp_filter",
		"kernel.hostname":                "kernel/hostname",
	} {
		if got := sysctlPath(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestASpecThatCannotBeIsRefusedWithAllThatIsWrong(t *testing.T) {
	good := Spec{Kind: UML, Name: "g", Dir: "/run/g", NICs: []NIC{{Name: "a", Tap: "t0"}, {Name: "b", Tap: "t1"}}}
	if s, err := good.checked(); err != nil || s.Memory != 128 || s.NICs[0].MTU != 1500 || slices.Equal(s.NICs[0].MAC, s.NICs[1].MAC) || s.NICs[0].MAC[0]&3 != 2 {
		t.Errorf("a good spec: %+v, %v", s, err)
	}
	for want, change := range map[string]func(*Spec){
		"kind":         func(s *Spec) { s.Kind = "vax" },
		"name":         func(s *Spec) { s.Name = "two words" },
		"not absolute": func(s *Spec) { s.Dir = "run" },
		"too long":     func(s *Spec) { s.Dir = "/" + strings.Repeat("x", 100) },
		"commas":       func(s *Spec) { s.Dir = "/run/a,b" },
		"UML has only": func(s *Spec) { s.Kernel = "6.1" },
		"two NICs":     func(s *Spec) { s.Impair, s.NICs = &Impairment{}, s.NICs[:1] },
		"loss":         func(s *Spec) { s.Impair = &Impairment{Loss: 101} },
		"jitter":       func(s *Spec) { s.Impair = &Impairment{Jitter: 1} },
		"delay":        func(s *Spec) { s.Impair = &Impairment{Delay: time.Hour} },
		"NIC 1":        func(s *Spec) { s.NICs[1].Tap = "" },
		"accelerator":  func(s *Spec) { s.Kind, s.Accel = QEMU, "warp" },
	} {
		s := good
		s.NICs = slices.Clone(s.NICs)
		change(&s)
		if _, err := s.checked(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, err := Spec{Kind: "vax", Dir: "run"}.checked()
	for _, want := range []string{"kind", "name", "not absolute"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("several mistakes: %v misses %s", err, want)
		}
	}
}

func TestTheSwitchboardKeepsClientsApart(t *testing.T) {
	guestEnd, near := net.Pipe()
	s := newSwitchboard()
	s.connect(near, func() error { return near.Close() })
	fromBoard, toBoard := json.NewDecoder(guestEnd), json.NewEncoder(guestEnd)
	client := func() (net.Conn, *json.Decoder, *json.Encoder) {
		far, conn := net.Pipe()
		go s.serve(conn)
		return far, json.NewDecoder(far), json.NewEncoder(far)
	}
	read := func(d *json.Decoder) (m message) {
		t.Helper()
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	connA, a, toA := client()
	toA.Encode(message{ID: 1, Run: []string{"early"}})
	if m := read(a); m.ID != 1 || m.Error == "" {
		t.Errorf("a command before the guest is ready: %+v", m)
	}
	toBoard.Encode(message{Ready: true})
	if m := read(a); !m.Ready {
		t.Errorf("not notified of readiness: %+v", m)
	}
	_, b, toB := client()
	if m := read(b); !m.Ready {
		t.Errorf("a later client is not notified of readiness: %+v", m)
	}
	toA.Encode(message{ID: 7, Run: []string{"a"}})
	ofA := read(fromBoard)
	toB.Encode(message{ID: 7, Run: []string{"b"}})
	ofB := read(fromBoard)
	if ofA.ID == ofB.ID || ofA.Run[0] != "a" || ofB.Run[0] != "b" {
		t.Fatalf("%+v and %+v", ofA, ofB)
	}
	toBoard.Encode(message{ID: ofB.ID, Out: []byte("for b")})
	if m := read(b); m.ID != 7 || string(m.Out) != "for b" {
		t.Errorf("b got %+v", m)
	}
	connA.Close() // its command must not outlive it
	if m := read(fromBoard); m.ID != ofA.ID || !m.Kill {
		t.Errorf("when a left the guest got %+v", m)
	}
	zero := 0
	toBoard.Encode(message{ID: ofA.ID, Exit: &zero}) // for a client that has left
	toBoard.Encode(message{ID: ofB.ID, Exit: &zero})
	if m := read(b); m.ID != 7 || m.Exit == nil {
		t.Errorf("b got %+v", m)
	}
	toB.Encode(message{ID: 8, Run: []string{"b"}})
	read(fromBoard)
	toB.Encode(message{Reset: true})
	if m := read(b); m.ID != 8 || m.Error != restartsNow {
		t.Errorf("b got %+v for a command of a machine that is switched off", m)
	}
	if err := fromBoard.Decode(&message{}); err == nil || !s.restarts() {
		t.Errorf("the machine still runs, or is not to run again: %v", err)
	}
	guestEnd, near = net.Pipe()
	s.connect(near, near.Close)
	toB.Encode(message{ID: 9, Run: []string{"early"}})
	if m := read(b); m.ID != 9 || m.Error == "" || s.restarts() {
		t.Errorf("a command before the guest is ready again: %+v", m)
	}
	json.NewEncoder(guestEnd).Encode(message{Ready: true})
	if m := read(b); !m.Ready {
		t.Errorf("not notified of readiness after the restart: %+v", m)
	}
	json.NewEncoder(guestEnd).Encode(message{Reboot: true})
	for !s.restarts() && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	go s.died("the end")
	if m := read(b); m.Died != "the end" {
		t.Errorf("b got %+v", m)
	}
}

func TestAnAcceleratorIsBelievedOnlyIfItRunsAProgram(t *testing.T) {
	if _, err := program(qemuBinary, "qemu-system-x86"); err != nil {
		t.Skip(err)
	}
	if err := probeAccelerator("tcg", 20*time.Second); err != nil {
		t.Errorf("TCG, which is always there: %v", err)
	}
	if err := probeAccelerator("nonsense", 20*time.Second); err == nil {
		t.Error("an accelerator that is not there was believed")
	}
	if err := probeAccelerator("tcg", time.Nanosecond); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("no time to answer: %v", err)
	}
}

func TestADirectoryWhoseGuestIsGoneIsRemovedWithoutHarmToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "g")
	write(t, filepath.Join(dir, pidFile), fmt.Sprint(os.Getpid())) // reused by now, as it were
	if err := Remove(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}
