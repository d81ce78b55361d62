package alltables

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"weft/internal/datapath"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/reconcile/kindtest"
	"weft/internal/state"
)

func TestEveryKindOfTheDatapathHasOneDoor(t *testing.T) {
	kindtest.Joined(t, state.Datapath, (&datapath.Datapath{}).With(datapath.Options{Parts: All()}).Kinds())
}

// The examples need devices, some of which have numbers.
func makeExampleDevices() error {
	for i, name := range []string{"lan", "nat64", "br0", "l2tp", "hidden", "wire"} {
		veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: fmt.Sprintf("far%d", i)}
		veth.Name = name
		switch name {
		case "hidden":
			veth.Index = 1001
		case "wire":
			veth.Index = 1002
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	return nil
}

func TestEveryKindOfTheDatapathIsMadeKeptChangedAndTakenAway(t *testing.T) {
	dir, space := pinDir(t, "kinds"), spacetest.New(t, "kinds")
	err := space.Do(func() error {
		if err := makeExampleDevices(); err != nil {
			return err
		}
		kindtest.Try(t, state.Datapath, nil, func(use func(kindtest.Target)) {
			d, err := Open(dir, datapath.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			use(d)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
