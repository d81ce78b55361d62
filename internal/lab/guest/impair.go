package guest

import (
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Impairment is a link's effect on the frames that cross it, the same in each
// direction. The zero value has none.
type Impairment struct {
	Delay  time.Duration // one way: a round trip takes twice as long
	Jitter time.Duration // +/- around Delay; reorders frames unless Rate holds them in line
	Loss   float64       // percent of the frames, independent of each other
	Rate   uint64        // bit/s of frames with their Ethernet header; 0 = as fast as it goes
	// Queue is the number of frames that may be in flight or waiting; 0 = 1000 with
	// a Rate, else 10000.
	Queue uint32
}

func (i Impairment) check() error {
	longest := math.MaxUint32 * time.Microsecond / 64 // netem counts ticks of 64 ns in 32 bits
	switch {
	case i.Delay < 0 || i.Delay > longest:
		return fmt.Errorf("delay %v: between 0 and %v", i.Delay, longest)
	case i.Jitter < 0 || i.Jitter > i.Delay:
		return fmt.Errorf("jitter %v: between 0 and the delay %v", i.Jitter, i.Delay)
	case !(i.Loss >= 0 && i.Loss <= 100):
		return fmt.Errorf("loss %v%%: between 0 and 100", i.Loss)
	}
	return nil
}

// ImpairSpec describes a guest that only connects two taps: each frame that enters
// one leaves the other, unchanged, after netem. It has no address and sends no
// packets of its own.
func ImpairSpec(name, dir, tapA, tapB string, i Impairment) Spec {
	return Spec{
		Kind: UML, Name: name, Dir: dir, Impair: &i,
		NICs: []NIC{{Name: "a", Tap: tapA}, {Name: "b", Tap: tapB}},
	}
}

// joinAsWire runs in the guest.
func joinAsWire(nameA, nameB string, i Impairment) error {
	a, err := quietLink(nameA)
	if err != nil {
		return err
	}
	b, err := quietLink(nameB)
	if err != nil {
		return err
	}
	if err := impair(a, i); err != nil {
		return err
	}
	if err := impair(b, i); err != nil {
		return err
	}
	if err := redirect(a, b); err != nil {
		return err
	}
	return redirect(b, a)
}

// quietLink sets up an interface that receives every frame and sends none of its
// own.
func quietLink(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	if err := writeSysctl("net/ipv6/conf/"+name+"/disable_ipv6", "1"); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetARPOff(link); err != nil {
		return nil, fmt.Errorf("set arp off on %s: %w", name, err)
	}
	if err := netlink.SetPromiscOn(link); err != nil {
		return nil, fmt.Errorf("set promiscuous on %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("set %s up: %w", name, err)
	}
	return link, nil
}

func impair(link netlink.Link, i Impairment) error {
	queue := or(i.Queue, 10000)
	if i.Queue == 0 && i.Rate > 0 {
		queue = 1000
	}
	netem := netlink.NewNetem(
		netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		netlink.NetemQdiscAttrs{
			Latency: uint32(i.Delay.Microseconds()), Jitter: uint32(i.Jitter.Microseconds()),
			Loss: float32(i.Loss), Limit: queue, Rate64: i.Rate / 8,
		})
	if err := netlink.QdiscAdd(netem); err != nil {
		return fmt.Errorf("add netem to %s: %w", link.Attrs().Name, err)
	}
	return nil
}

func redirect(from, to netlink.Link) error {
	ingress := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: from.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS,
	}}
	if err := netlink.QdiscAdd(ingress); err != nil {
		return fmt.Errorf("add ingress qdisc to %s: %w", from.Attrs().Name, err)
	}
	filter := &netlink.MatchAll{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: from.Attrs().Index, Parent: ingress.Handle, Priority: 1, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{netlink.NewMirredAction(to.Attrs().Index)},
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("redirect %s to %s: %w", from.Attrs().Name, to.Attrs().Name, err)
	}
	return nil
}
