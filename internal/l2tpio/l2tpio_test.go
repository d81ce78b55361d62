package l2tpio

import (
	"net/netip"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace/spacetest"
)

// A neighbour that does not answer holds what is sent to it, and with it the socket's send
// buffer. Sends go on or are dropped; none waits.
func TestASendToADeadNeighbourNeverWaits(t *testing.T) {
	spacetest.NeedRoot(t)
	runtime.LockOSThread() // and never unlock: the thread ends with its namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"link", "add", "near", "type", "veth", "peer", "name", "far"}, {"link", "set", "far", "up"}, {"link", "set", "near", "up"},
		{"address", "add", "192.0.2.1/24", "dev", "near"},
	} {
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	s, err := Open(t.Context(), netip.MustParseAddrPort("192.0.2.1:1701"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dropped, slowest := 0, time.Duration(0)
	for range 200 {
		begin := time.Now()
		if !s.Send(make([]byte, 200), netip.MustParseAddrPort("192.0.2.9:1701")) {
			dropped++
		}
		slowest = max(slowest, time.Since(begin))
	}
	if dropped == 0 {
		t.Error("everything fits: the test does not fill the buffer")
	}
	if slowest > 300*time.Millisecond {
		t.Errorf("one waited %s", slowest)
	}
}
