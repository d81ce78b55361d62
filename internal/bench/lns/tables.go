package lns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"weft/fib"
	"weft/internal/bench/rig"
	"weft/internal/datapath"
	"weft/internal/datapath/alltables"
	"weft/internal/datapath/fibtable"
	"weft/internal/datapath/subscribertable"
	"weft/internal/lab/probe/lac"
	"weft/internal/paths"
	"weft/internal/state"
)

// tables is weft's datapath as a server, with sessions that are written into its
// tables without negotiation: the programs alone.
type tables struct {
	datapath    *datapath.Datapath
	subscribers *subscribertable.Subscribers
	routes      *fibtable.Routes
}

const lnsDevice = "lns-main"

func newTables(p *rig.Path, sessions int, xdp bool) (*tables, []*lac.Session, error) {
	cookie, err := p.Router.Cookie()
	if err != nil {
		return nil, nil, err
	}
	t := &tables{}
	var list []*lac.Session
	err = p.Router.Do(func() (err error) {
		size := state.Tables{Subscribers: 65536}
		if t.datapath, err = alltables.Open(paths.Of(cookie).Pins, datapath.Options{Tables: size}); err != nil {
			return err
		}
		if t.subscribers, err = subscribertable.Of(t.datapath).Subscribers(); err != nil {
			return err
		}
		if err := t.build(p, datapath.Builds(size), xdp); err != nil {
			return err
		}
		list, err = t.fill(sessions)
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("fill weft's tables: %w", err), t.Close())
	}
	return t, list, nil
}

func (t *tables) build(p *rig.Path, builds map[string]string, xdp bool) error {
	tap := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI}
	tap.Name = lnsDevice
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("make %s: %w", tap.Name, err)
	}
	dev, err := netlink.LinkByName(tap.Name)
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetMTU(dev, mtu), netlink.LinkSetARPOff(dev), netlink.LinkSetUp(dev)); err != nil {
		return err
	}
	far, err := rig.MAC(p.Right, "eth0")
	if err != nil {
		return err
	}
	objects := []state.Object{
		state.RouteTables{Words4: fib.MinWords4 + 1<<16, Words6: fib.MinWords6 + 1<<16},
		state.LNS{Name: "main", Device: tap.Name, MAC: [6]byte(dev.Attrs().HardwareAddr), Routed: true},
		state.IngressEntry{Device: tap.Name, Index: dev.Attrs().Index, MAC: [6]byte(dev.Attrs().HardwareAddr)},
		state.Attachment{Device: tap.Name, Hook: state.HookEgress, Program: "lns_egress", Build: builds["lns_egress"]},
	}
	var wan netlink.Link
	for _, name := range []string{"lan", "wan"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		wan = l
		objects = append(objects,
			state.IngressEntry{Device: name, Index: l.Attrs().Index, MAC: [6]byte(l.Attrs().HardwareAddr), Roles: (state.RoleXDPOut | state.RoleRouted).With(state.RoleSubscribers, name == "lan")},
			state.Attachment{Device: name, Hook: state.HookIngress, Program: "ingress_tc", Build: builds["ingress_tc"]})
		if xdp {
			objects = append(objects, state.Attachment{Device: name, Hook: state.HookXDP, Program: "ingress_xdp", Build: builds["ingress_xdp"]})
		}
	}
	for _, o := range objects {
		if err := t.datapath.Apply(context.Background(), state.Step{Op: state.Add, Object: o}); err != nil {
			return err
		}
	}
	return t.route(state.NeighbourEntry{
		IfIndex: uint32(wan.Attrs().Index), MTU: 1500, XDP: true, Dst: [6]byte(far), Src: [6]byte(wan.Attrs().HardwareAddr),
	}, uint32(dev.Attrs().Index))
}

// route sends subscribers' addresses to their sessions, and the core's to its host.
func (t *tables) route(core state.NeighbourEntry, device uint32) (err error) {
	if t.routes, err = fibtable.Of(t.datapath).Routes(); err != nil {
		return err
	}
	words, err := t.routes.Words4(0)
	if err != nil {
		return err
	}
	table, err := fib.New4(words)
	if err != nil {
		return err
	}
	n, _ := t.routes.Range()
	return errors.Join(
		t.routes.SetNeighbour(n, core),
		t.routes.SetNexthop(n, state.Nexthop{Kind: state.NexthopNeighbour, Index: n}),
		t.routes.SetNexthop(n+1, state.Nexthop{Kind: state.NexthopSession, Index: device}),
		t.routes.SetNexthop(n+2, state.Nexthop{Kind: state.NexthopLocal}),
		table.Insert(right.Host[1].Masked(), n), table.Insert(pool, n+1),
		table.Insert(netip.PrefixFrom(right.Router[1].Addr(), 32), n+2),
		t.routes.Publish())
}

func (t *tables) fill(n int) ([]*lac.Session, error) {
	var list []*lac.Session
	var put []state.L2TPSession
	addr := pool.Addr()
	for i := range n {
		addr = addr.Next()
		id := uint16(i + 1)
		list = append(list, lac.Given(1, id, addr))
		put = append(put, state.L2TPSession{
			Local: id, Remote: id, Tunnel: 1, IPv4: addr, MTU: mtu, MSS: mtu - 40,
			Prefixes: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 1, byte(i >> 8), byte(i)}), 56)},
		})
	}
	return list, t.subscribers.Put([]state.L2TPTunnel{{Local: 1, Remote: 1, LocalAddr: here, Peer: peer}}, put)
}

// Close closes it; pins are removed with the path.
func (t *tables) Close() error {
	var errs []error
	if t.routes != nil {
		errs = append(errs, t.routes.Close())
	}
	if t.subscribers != nil {
		errs = append(errs, t.subscribers.Close())
	}
	if t.datapath != nil {
		errs = append(errs, t.datapath.Close())
	}
	return errors.Join(errs...)
}
