package dhcp6io

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace/spacetest"
)

// Answers to hosts that are not there fill the socket's buffer until the kernel gives
// them up: after that they are dropped, and nothing waits.
func TestAnswersToHostsThatAreNotThereDoNotBlock(t *testing.T) {
	err := spacetest.New(t, "dhcp6").Do(func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "far"}); err != nil {
			return err
		}
		for _, name := range []string{"lan", "far"} {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(l); err != nil {
				return err
			}
		}
		var c *Conn
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			var err error
			if c, err = Listen(t.Context(), "lan"); err == nil {
				break
			}
			if time.Now().After(end) {
				return err
			}
		}
		defer c.Close()
		if err := c.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<15) }); err != nil {
			return err
		}
		full := 0
		for end := time.Now().Add(time.Minute); full == 0 && time.Now().Before(end); { // its address may be tentative
			for i := range uint32(500) {
				to := [16]byte{0: 0xfe, 1: 0x80}
				binary.BigEndian.PutUint32(to[12:], i)
				if err := c.Send(make([]byte, 1000), netip.AddrFrom16(to)); errors.Is(err, unix.EAGAIN) {
					full++
				}
			}
		}
		if full == 0 {
			t.Error("the buffer is never full: each send waited")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
