package slowpath

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// A packet at which its handler panics is lost; the next one is handled, and the
// device says what happened.
func TestAPacketAtWhichItsHandlerPanicsIsLost(t *testing.T) {
	err := spacetest.New(t, "panic").Do(func() error {
		tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tap"}, Mode: netlink.TUNTAP_MODE_TAP}
		if err := netlink.LinkAdd(tap); err != nil {
			return err
		}
		d, err := Open("tap", [6]byte{2})
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(tap); err != nil {
			return err
		}
		frames, err := OpenFrames()
		if err != nil {
			return err
		}
		defer frames.Close()
		device, err := net.InterfaceByName("tap")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var handled atomic.Uint64
		served := make(chan error, 1)
		go func() {
			served <- d.Serve(ctx, func(ip []byte, _ state.Arrival) []Packet {
				if len(ip) > 4 && ip[0] == 0xbd {
					panic("slice bounds out of range")
				}
				if len(ip) > 4 && ip[0] == 0xcd {
					handled.Add(1)
				}
				return nil
			})
		}()
		frame := func(first byte) []byte { return append(make([]byte, 12), 0x88, 0xb5, first, 1, 2, 3, 4, 5) }
		for range 5 {
			frames.Send(frame(0xbd), device.Index)
			frames.Send(frame(0xcd), device.Index)
		}
		for end := time.Now().Add(10 * time.Second); handled.Load() < 5; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d packets were handled after panics", handled.Load())
			}
		}
		if err := d.Fault(); err == nil || !strings.Contains(err.Error(), "5 messages") || !strings.Contains(err.Error(), "begins with bd01020304") {
			t.Errorf("the device says %v", err)
		}
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAReassembledPacketAtWhichItsHandlerPanicsIsLost(t *testing.T) {
	err := spacetest.New(t, "panic").Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		j, err := OpenReassembled(ctx, netip.MustParseAddr("127.0.0.1"), 115)
		if err != nil {
			return err
		}
		var calls atomic.Uint64
		go func() {
			_ = j.Serve(ctx, func([]byte, int) {
				if calls.Add(1) == 1 {
					panic("nil map")
				}
			})
		}()
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, 115)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		defer unix.Close(fd)
		for end := time.Now().Add(10 * time.Second); calls.Load() < 3; time.Sleep(time.Millisecond) {
			_ = unix.Sendto(fd, []byte("12345678"), 0, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
			if time.Now().After(end) {
				t.Fatalf("%d packets were handled", calls.Load())
			}
		}
		if err := j.Fault(); err == nil || !strings.Contains(err.Error(), "nil map") {
			t.Errorf("it says %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
