package kernel

import (
	"os/exec"
	"testing"

	"github.com/vishvananda/netlink"

	"weft/internal/lab/netspace/spacetest"
)

func TestADeviceThatChainsReceivedPacketsIsKnown(t *testing.T) {
	space := spacetest.New(t, "router")
	err := space.Do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "far"}
		veth.Name = "lan"
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		for _, on := range []bool{false, true, false} {
			word := map[bool]string{false: "off", true: "on"}[on]
			if out, err := exec.Command("ethtool", "-K", "lan", "rx-gro-list", word).CombinedOutput(); err != nil {
				t.Errorf("ethtool: %v: %s", err, out)
			}
			k, err := Open(t.TempDir())
			if err != nil {
				return err
			}
			links, err := k.Links()
			k.Close()
			if err != nil {
				return err
			}
			for _, l := range links {
				if l.GROList != (on && l.Name == "lan") {
					t.Errorf("switched %s: %s has rx-gro-list %v", word, l.Name, l.GROList)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
