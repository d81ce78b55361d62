package rig

import (
	"context"
	"errors"
	"net/netip"

	"weft/internal/ethtool"
	"weft/internal/lab/netspace"
)

// Behind makes a namespace behind the left one, which forwards for it:
//
//	behind eth0 --- far left eth0 --- lan router
//
// A forwarded packet has no owning socket in the left one: a TCP that sends from
// behind is notified there that its skbs are freed, and continues there. If the left
// one itself sent, it would continue wherever the router frees the skbs, as the
// router's work. Segments are made behind, and stay apart. checksum: transport
// checksums are left to the device, as if a network card had verified them. via is
// the left one's address.
func (p *Path) Behind(ctx context.Context, network netip.Prefix, via netip.Addr, checksum bool) (*netspace.Space, error) {
	far := network.Addr().Next()
	host := far.Next()
	bits := network.Bits()
	s, err := newSpace(p.Left.Name + "b")
	if err != nil {
		return nil, err
	}
	p.onClose(func() error { return remove(context.WithoutCancel(ctx), s) })
	for _, c := range []struct {
		in   *netspace.Space
		argv []string
	}{
		{p.Left, []string{"ip", "link", "add", "far", "type", "veth", "peer", "name", "eth0", "netns", s.Name}},
		{p.Left, []string{"ip", "address", "add", netip.PrefixFrom(far, bits).String(), "dev", "far"}},
		{p.Left, []string{"ip", "link", "set", "far", "up"}},
		{s, []string{"ip", "address", "add", netip.PrefixFrom(host, bits).String(), "dev", "eth0"}},
		{s, []string{"ip", "link", "set", "eth0", "up"}},
		{s, []string{"ip", "route", "add", "default", "via", far.String()}},
	} {
		if _, err := p.Command(ctx, c.in, c.argv...); err != nil {
			return nil, err
		}
	}
	err = s.Do(func() error {
		return errors.Join(ethtool.Switch("eth0", ethtool.TransmitChecksum, checksum), ethtool.Switch("eth0", ethtool.SegmentTCP, false))
	})
	if checksum { // else they leave no segments to the device as it is
		for _, host := range []*netspace.Space{p.Left, p.Right} {
			err = errors.Join(err, host.Do(func() error { return ethtool.Switch("eth0", ethtool.SegmentTCP, false) }))
		}
	}
	return s, errors.Join(err, sysctls(p.Left, "net/ipv4/ip_forward=1"), p.Route(network, via))
}
