package lns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"weft/internal/datapath"
	"weft/internal/datapath/alltables"
	"weft/internal/datapath/subscribertable"
	"weft/internal/lab/netspace"
	"weft/internal/paths"
	"weft/internal/state"
)

// end is weft's datapath in one namespace, without the daemon: the subscriber whose
// TCP is measured, with any server. It has one session.
type end struct {
	space       *netspace.Space
	datapath    *datapath.Datapath
	subscribers *subscribertable.Subscribers
}

const (
	subscriberDevice = "ppp-sub"
	// the overhead of a packet: IPv4, UDP, L2TP, PPP
	overhead = 20 + 8 + 6 + 4
	mtu      = 1500 - overhead
)

// newEnd makes the subscriber's device and attaches the programs.
func newEnd(in *netspace.Space) (*end, error) {
	cookie, err := in.Cookie()
	if err != nil {
		return nil, err
	}
	e := &end{space: in}
	err = in.Do(func() (err error) {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
			return err
		}
		tables := state.Tables{Subscribers: 65536}
		if e.datapath, err = alltables.Open(paths.Of(cookie).Pins, datapath.Options{Tables: tables}); err != nil {
			return err
		}
		if e.subscribers, err = subscribertable.Of(e.datapath).Subscribers(); err != nil {
			return err
		}
		return e.build(datapath.Builds(tables))
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the subscriber: %w", err), e.Close())
	}
	return e, nil
}

func (e *end) build(builds map[string]string) error {
	tap := &netlink.Tuntap{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI}
	tap.Name = subscriberDevice
	if err := netlink.LinkAdd(tap); err != nil {
		return fmt.Errorf("make %s: %w", tap.Name, err)
	}
	dev, err := netlink.LinkByName(tap.Name)
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetMTU(dev, mtu), netlink.LinkSetARPOff(dev), netlink.LinkSetUp(dev)); err != nil {
		return fmt.Errorf("set up %s: %w", tap.Name, err)
	}
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	objects := []state.Object{
		state.LNS{Name: "sub", Device: tap.Name, MAC: [6]byte(dev.Attrs().HardwareAddr)},
		state.IngressEntry{Device: "eth0", Index: eth0.Attrs().Index, MAC: [6]byte(eth0.Attrs().HardwareAddr), Roles: state.RoleSubscribers | state.RoleXDPOut},
		state.IngressEntry{Device: tap.Name, Index: dev.Attrs().Index, MAC: [6]byte(dev.Attrs().HardwareAddr)},
		state.Attachment{Device: "eth0", Hook: state.HookIngress, Program: "ingress_tc", Build: builds["ingress_tc"]},
		state.Attachment{Device: tap.Name, Hook: state.HookEgress, Program: "lns_egress", Build: builds["lns_egress"]},
	}
	for _, o := range objects {
		if err := e.datapath.Apply(context.Background(), state.Step{Op: state.Add, Object: o}); err != nil {
			return err
		}
	}
	return nil
}

// serve assigns one session to the subscriber, and routes a host through it.
func (e *end) serve(t state.L2TPTunnel, s state.L2TPSession, to netip.Addr) error {
	s.Prefixes = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0)}
	s.Trusted, s.MTU, s.MSS, s.Tunnel = true, mtu, mtu-40, t.Local
	own := s.IPv4
	s.IPv4 = netip.Addr{}
	if err := e.subscribers.Put([]state.L2TPTunnel{t}, []state.L2TPSession{s}); err != nil {
		return err
	}
	return e.space.Do(func() error {
		dev, err := netlink.LinkByName(subscriberDevice)
		if err != nil {
			return err
		}
		addr := &netlink.Addr{IPNet: host(own)}
		if err := netlink.AddrReplace(dev, addr); err != nil {
			return fmt.Errorf("add address %s: %w", own, err)
		}
		r := &netlink.Route{LinkIndex: dev.Attrs().Index, Dst: host(to), Src: own.AsSlice()}
		if err := netlink.RouteReplace(r); err != nil {
			return fmt.Errorf("add route %s: %w", to, err)
		}
		return nil
	})
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// Close closes it; pins are removed with the path.
func (e *end) Close() error {
	var errs []error
	if e.subscribers != nil {
		errs = append(errs, e.subscribers.Close())
	}
	if e.datapath != nil {
		errs = append(errs, e.datapath.Close())
	}
	return errors.Join(errs...)
}
