package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/rtnetlink"
	"weft/internal/lab/netspace/spacetest"
	"weft/internal/state"
)

// rules takes the rules of a dump.
type rules struct{ list []state.KernelRule }

func (r *rules) Rules(list []state.KernelRule)             { r.list = list }
func (*rules) Link(state.KernelLink)                       {}
func (*rules) LinkGone(int)                                {}
func (*rules) Neighbour(state.KernelNeighbour)             {}
func (*rules) NeighbourGone(state.KernelNeighbour)         {}
func (*rules) BridgeEntry(state.BridgeEntry)               {}
func (*rules) BridgeEntryGone(state.BridgeEntry)           {}
func (*rules) Object(state.NexthopObject)                  {}
func (*rules) ObjectGone(uint32)                           {}
func (*rules) Route(*state.KernelRoute, state.RouteChange) {}
func (*rules) RoutesMayBeGone()                            {}

// Devices, addresses and rules come and go while they are listed: what stays is
// in every list.
func TestWhatStaysIsListedWhileOthersComeAndGo(t *testing.T) {
	space := spacetest.New(t, "busy")
	const many = 1200 // more than the kernel tells at once
	lines := []string{"link set lo up"}
	for i := range many {
		lines = append(lines, fmt.Sprintf("address add 198.18.%d.%d/32 dev lo", i/250, i%250+1))
	}
	for i := range many / 24 {
		lines = append(lines, fmt.Sprintf("link add d%d type veth peer name p%d", i, i), fmt.Sprintf("rule add from 192.0.2.%d lookup 7", i))
	}
	spacetest.Batch(t, space, lines...)
	inSpace(t, space, func() error {
		k, err := Open(t.TempDir())
		if err != nil {
			return err
		}
		defer k.Close()
		feed, err := rtnetlink.OpenFeed()
		if err != nil {
			return err
		}
		defer feed.Close()
		other, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer other.Close()
		stop, stopped := make(chan struct{}), make(chan error)
		go func() {
			for {
				select {
				case <-stop:
					stopped <- nil
					return
				default:
				}
				if err := comeAndGo(other); err != nil {
					stopped <- err
					return
				}
			}
		}()
		for range 40 {
			facts, err := k.Links()
			if err != nil {
				t.Error(err)
				break
			}
			devices, addresses := 0, 0
			for _, f := range facts {
				if f.Name[0] == 'd' || f.Name[0] == 'p' {
					devices++
				}
				for _, a := range f.Addresses {
					if netip.MustParsePrefix("198.18.0.0/15").Contains(a.Addr()) {
						addresses++
					}
				}
			}
			s := &rules{}
			if err := feed.Dump(t.Context(), s); err != nil {
				t.Error(err)
			}
			if devices != many/12 || addresses != many || len(s.list) < many/24 {
				t.Errorf("%d devices, %d addresses and %d rules are listed, want %d, %d and %d", devices, addresses, len(s.list), many/12, many, many/24)
			}
		}
		close(stop)
		return <-stopped
	})
}

// comeAndGo changes each kind of thing, twice.
func comeAndGo(h *netlink.Handle) error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "guest", TxQLen: -1}}
	if err := h.LinkAdd(bridge); err != nil {
		return err
	}
	address := &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("203.0.113.1/32"))}
	rule := netlink.NewRule()
	rule.Table, rule.Priority, rule.Src = 9, 5, ipNet(netip.MustParsePrefix("203.0.113.0/24"))
	for _, change := range []func() error{
		func() error { return h.AddrAdd(bridge, address) }, func() error { return h.RuleAdd(rule) },
		func() error { return h.RuleDel(rule) }, func() error { return h.AddrDel(bridge, address) }, func() error { return h.LinkDel(bridge) },
	} {
		if err := change(); err != nil {
			return err
		}
	}
	return nil
}
