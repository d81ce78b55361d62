package ethtool_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/ethtool"
	"weft/internal/lab/netspace/spacetest"
)

// features returns what the program ethtool says of a device.
func features(t *testing.T, device string) string {
	t.Helper()
	out, err := exec.Command("ethtool", "-k", device).Output()
	if err != nil {
		t.Fatalf("ethtool -k %s: %v", device, err)
	}
	return string(out)
}

func TestEveryOffloadIsReadAndSwitched(t *testing.T) {
	err := spacetest.New(t, "host").Do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
		veth.Name = "lan"
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		for _, c := range []struct {
			flag ethtool.Flag
			line string
		}{
			{ethtool.Receive, "generic-receive-offload: "}, {ethtool.Segment, "generic-segmentation-offload: "}, {ethtool.SegmentTCP, "tx-tcp-segmentation: "},
			{ethtool.ScatterGather, "scatter-gather: "}, {ethtool.TransmitChecksum, "tx-checksumming: "},
		} {
			if err := ethtool.Switch("lan", ethtool.Receive, true); err != nil {
				return err
			}
			for _, on := range []bool{false, true, false} {
				if err := ethtool.Switch("lan", c.flag, on); err != nil {
					return err
				}
				word := map[bool]string{true: "on", false: "off"}[on]
				if is, err := ethtool.Get("lan", c.flag); err != nil || (is != 0) != on {
					t.Errorf("%s is %d after it was switched %s (%v)", c.flag, is, word, err)
				}
				if !strings.Contains(features(t, "lan"), c.line+word) {
					t.Errorf("ethtool -k does not say %q", c.line+word)
				}
			}
			// each one needs those that follow it here
			if err := ethtool.Switch("lan", c.flag, true); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFeaturesAreSwitchedOffByName(t *testing.T) {
	err := spacetest.New(t, "host").Do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
		veth.Name = "lan"
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		const first, second, stays = "tx-udp_tnl-segmentation: ", "tx-udp_tnl-csum-segmentation: ", "tx-sctp-segmentation: "
		before := features(t, "lan")
		if err := ethtool.SwitchOff("lan", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "no-such-feature"); err != nil {
			return err
		}
		after := features(t, "lan")
		for _, line := range []string{first, second, stays} {
			off := line != stays
			if !strings.Contains(before, line+"on") || strings.Contains(after, line+"off") != off || strings.Contains(after, line+"on") == off {
				t.Errorf("%q: before\n%s\nafter\n%s", line, before, after)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnErrorNamesTheDeviceAndTheFlag(t *testing.T) {
	err := spacetest.New(t, "host").Do(func() error {
		_, err := ethtool.Get("absent0", ethtool.Receive)
		for _, err := range []error{err, ethtool.Switch("absent0", ethtool.Receive, true), ethtool.SwitchOff("absent0", "gro")} {
			if !errors.Is(err, unix.ENODEV) || !strings.Contains(err.Error(), "absent0") {
				t.Errorf("%v, want ENODEV and the device's name", err)
			}
		}
		// lo's driver has no flag of VLAN tags to switch
		if err := ethtool.Set("lo", ethtool.Flags, ethtool.StripTags); !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("lo takes tags out of frames: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
