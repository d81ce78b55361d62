package packetio

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace/spacetest"
)

// frame is an Ethernet frame of so many tags.
func frame(tags []uint16, protocol uint16, payload string) []byte {
	b := append([]byte{255, 255, 255, 255, 255, 255}, 2, 0, 0, 0, 0, 9)
	for _, t := range tags {
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, 0x8100), t)
	}
	return append(binary.BigEndian.AppendUint16(b, protocol), payload...)
}

// A device's own packets are received, those of its VLANs are not, nor those that the filter
// refuses.
func TestPacketsOfVLANsAreNotTheDevices(t *testing.T) {
	near, far := spacetest.New(t, "near"), spacetest.New(t, "far")
	spacetest.Batch(t, near, "link add here type veth peer name there netns "+far.Name, "link set here up")
	spacetest.Batch(t, far, "link set there up")
	var c *Conn
	err := near.Do(func() (err error) {
		c, err = Open("here", IPv4, []bpf.Instruction{
			bpf.LoadAbsolute{Off: 0, Size: 1}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 'x', SkipTrue: 1}, bpf.RetConstant{Val: 65535}, bpf.RetConstant{Val: 0},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = far.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		d, err := Open("there", None, nil) // for its index
		if err != nil {
			return err
		}
		defer d.Close()
		for _, b := range [][]byte{
			frame([]uint16{5}, IPv4, "of VLAN 5"), frame([]uint16{5, 6}, IPv4, "of VLAN 6 in 5"), frame(nil, ARP, "of another ethertype"), frame(nil, IPv4, "x: refused"),
			frame([]uint16{0x2000}, IPv4, "with a priority"), frame(nil, IPv4, "the last"),
		} {
			if err := unix.Sendto(fd, b, 0, &unix.SockaddrLinklayer{Ifindex: d.index}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"with a priority", "the last"} {
		p, err := c.Receive()
		if err != nil || string(p.Payload) != want || p.From != [6]byte{2, 0, 0, 0, 0, 9} || p.Partial {
			t.Errorf("%q from %x, %v; want %q", p.Payload, p.From, err, want)
		}
	}
}
