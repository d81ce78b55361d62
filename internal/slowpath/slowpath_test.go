package slowpath

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace/spacetest"
)

// A device that does not exist, or is not persistent, is not created: it was removed, and
// the task that created it must create it again.
func TestADeviceThatIsGoneIsNotMadeByWhoWantsToServeIt(t *testing.T) {
	err := spacetest.New(t, "tap").Do(func() error {
		for range 2 {
			if d, err := Open("gone", [6]byte{2}); err == nil {
				d.Close()
				t.Error("it was opened")
			}
			if _, err := net.InterfaceByName("gone"); err == nil {
				t.Error("now there is a device")
			}
		}
		tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "there"}, Mode: netlink.TUNTAP_MODE_TAP}
		if err := netlink.LinkAdd(tap); err != nil {
			return err
		}
		d, err := Open("there", [6]byte{2})
		if err != nil {
			return err
		}
		return d.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The device may go between the look whether it is there and the call that takes it.
func TestADeviceThatWasMadeByTakingItIsLetGo(t *testing.T) {
	err := spacetest.New(t, "tap").Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		req, err := unix.NewIfreq("made")
		if err != nil {
			return err
		}
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
			return err
		}
		if err := persists(fd, req); !errors.Is(err, unix.ENODEV) {
			t.Errorf("a device that goes with its file: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
