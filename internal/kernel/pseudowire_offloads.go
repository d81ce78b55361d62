package kernel

import (
	"context"
	"fmt"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weft/internal/kernel/nlconn"
	"weft/internal/state"
)

// The offloads of a pseudowire. GSO packets of other tunnels are segmented before:
// the kernel supports one level of encapsulation, not two.
var (
	pseudowireTunnels  = []string{"tx-gre-segmentation", "tx-gre-csum-segmentation", "tx-ipxip4-segmentation", "tx-ipxip6-segmentation", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"}
	pseudowireSegments = []string{"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation", "tx-sctp-segmentation", "tx-gso-list"}
	pseudowireSums     = []string{"tx-checksum-ip-generic"}
	pseudowireMerges   = []string{"rx-gro"}
)

// features are the offloads of a pseudowire, by ethtool's names.
func features(w state.PseudowireDevice) map[string]bool {
	bits := map[string]bool{}
	for _, group := range []struct {
		names []string
		on    bool
	}{{pseudowireTunnels, false}, {pseudowireSegments, w.Segments && w.Sums}, {pseudowireSums, w.Sums}, {pseudowireMerges, true}} {
		for _, name := range group.names {
			bits[name] = group.on
		}
	}
	return bits
}

// setOffloads sets the offloads of several pseudowires together, if the kernel has
// all of them.
func (k *Kernel) setOffloads(ctx context.Context, list []state.PseudowireDevice) error {
	family, err := ethtoolFamily()
	if err != nil {
		return fmt.Errorf("find the kernel's ethtool: %w", err)
	}
	generic, err := k.generic()
	if err != nil {
		return err
	}
	type wanted struct {
		device string
		bits   map[string]bool
	}
	var all []wanted
	for _, w := range list {
		all = append(all, wanted{w.Name, features(w)})
		if w.Bypass {
			// XDP can redirect frames to the one end if the other receives by NAPI
			all = append(all, wanted{w.Hidden, map[string]bool{"rx-gro": true}})
		}
	}
	orders := make([]nlconn.Order, len(all))
	for i, w := range all {
		orders[i] = nlconn.Order{Kind: family.ID, Body: featuresBody(w.device, w.bits)}
	}
	failed, err := generic.Answers(ctx, orders)
	if err != nil {
		return err
	}
	for i, w := range all {
		if failed[i] == nil {
			continue
		}
		if err := setFeatures(w.device, w.bits); err != nil {
			return fmt.Errorf("set the offloads of %s: %w", w.device, err)
		}
	}
	return nil
}

// ethtoolFamily is constant while the kernel runs.
var ethtoolFamily = sync.OnceValues(func() (*netlink.GenlFamily, error) { return netlink.GenlFamilyGet("ethtool") })

// setFeatures sets offloads by ethtool's names. The kernel refuses a request with an
// unknown name completely, so such names are sent separately.
func setFeatures(device string, bits map[string]bool) error {
	family, err := ethtoolFamily()
	if err != nil {
		return fmt.Errorf("find the kernel's ethtool: %w", err)
	}
	err = setFeatureBits(family, device, bits)
	if err == nil || len(bits) < 2 {
		return err
	}
	for name, on := range bits {
		// an offload that is not there is off
		if err := setFeatureBits(family, device, map[string]bool{name: on}); err != nil && on {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func setFeatureBits(family *netlink.GenlFamily, device string, bits map[string]bool) error {
	req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	req.AddRawData(featuresBody(device, bits))
	_, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// featuresBody is the request that sets offloads (linux/ethtool_netlink.h).
func featuresBody(device string, bits map[string]bool) []byte {
	header := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_HEADER|nlconn.NestedFlag, nil)
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_DEV_NAME, nl.ZeroTerminated(device))
	header.AddRtAttr(unix.ETHTOOL_A_HEADER_FLAGS, nl.Uint32Attr(unix.ETHTOOL_FLAG_OMIT_REPLY))
	wanted := nl.NewRtAttr(unix.ETHTOOL_A_FEATURES_WANTED|nlconn.NestedFlag, nil)
	list := wanted.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS|nlconn.NestedFlag, nil)
	for name, on := range bits {
		bit := list.AddRtAttr(unix.ETHTOOL_A_BITSET_BITS_BIT|nlconn.NestedFlag, nil)
		bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_NAME, nl.ZeroTerminated(name))
		if on {
			bit.AddRtAttr(unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
		}
	}
	// struct genlmsghdr
	return append(append([]byte{unix.ETHTOOL_MSG_FEATURES_SET, 1, 0, 0}, header.Serialize()...), wanted.Serialize()...)
}
