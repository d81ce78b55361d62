package trace

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// caught is a frame that left.
type caught struct {
	device int // index into world.devices
	frame  []byte
	at     time.Time
}

var errNoBarrier = errors.New("a device lost the barrier frame")

// barrier sends a frame out of every device, waits until all have come
// through, and gives what came before them. Queues keep the order, and the
// whole process runs on one CPU (see startInner), so what was on its way to a
// far end before the barrier has arrived with it.
func (w *topology) barrier(limit time.Duration) ([]caught, error) {
	w.serial++
	waiting := map[int]bool{}
	for _, d := range w.devices {
		if d.port {
			continue // the bridge's programs would see the frame, and may drop it
		}
		if err := w.near.send(d.nearIndex, barrierFrame(d.mac, w.serial)); err != nil {
			return nil, fmt.Errorf("send by %s: %w", d.dev, err)
		}
		waiting[d.farIndex] = true
	}
	var list []caught
	deadline := time.Now().Add(limit)
	for len(waiting) > 0 {
		frame, index, err := w.far.next(time.Until(deadline))
		if err != nil {
			return list, err
		}
		if frame == nil {
			return list, errNoBarrier
		}
		if serial, ok := barrierSerial(frame); ok {
			if serial == w.serial {
				delete(waiting, index)
			}
			continue
		}
		if !chatter(frame) {
			list = append(list, caught{w.deviceAt(index), frame, time.Now()})
		}
	}
	return list, nil
}

func (w *topology) deviceAt(farIndex int) int {
	for i, d := range w.devices {
		if d.farIndex == farIndex {
			return i
		}
	}
	return -1
}

const (
	// quietRounds barriers must bring nothing new: the longest way between two
	// signs of life is from a program into the stack and out, two queues.
	quietRounds = 4
	// barrierLimit is far beyond what a busy machine needs.
	barrierLimit = 10 * time.Second
	// settleLimit ends the wait for a packet that never comes to rest.
	settleLimit = 5 * time.Second
)

// settle waits until nothing moves any more: no frame leaves, no program
// decides, and no slow path has a packet in hand. base is the tally before.
func (w *topology) settle(r Router, base tally) ([]caught, tally, error) {
	var all []caught
	last := base
	deadline := time.Now().Add(settleLimit)
	for quiet := 0; quiet < quietRounds; {
		list, err := w.barrier(barrierLimit)
		if err != nil {
			return all, last, err
		}
		for _, c := range list {
			answered, err := w.answerFor(c)
			if err != nil {
				return all, last, err
			}
			if !answered {
				all = append(all, c)
			}
		}
		quiet++
		if len(list) > 0 {
			quiet = 0
		}
		if quiet < quietRounds {
			continue
		}
		now, err := count(r)
		if err != nil {
			return all, last, err
		}
		busy := now.handedUp()-base.handedUp() > now.served-base.served
		if busy || now.decided() != last.decided() || now.served != last.served {
			quiet = 0
		}
		last = now
		if busy {
			time.Sleep(100 * time.Microsecond) // let it run: it is on this CPU too
		}
		if time.Now().After(deadline) {
			break // the slow path lost a packet, or one goes round and round
		}
	}
	return all, last, nil
}

func count(r Router) (tally, error) {
	var t tally
	var err error
	t.slow, t.served = r.Slow()
	t.programs, err = r.Counts()
	return t, err
}

// answerFor answers what the kernel asks its neighbours, by telling it the
// link address directly. The frame of the question is used up.
func (w *topology) answerFor(c caught) (bool, error) {
	if !w.answer || c.device < 0 {
		return false, nil
	}
	a, ok := asked(c.frame)
	if !ok {
		return etherTypeOf(c.frame) == etherARP, nil
	}
	return true, w.know(w.devices[c.device].nearIndex, a)
}

// know makes a the address of a neighbour at the far end of a device.
func (w *topology) know(index int, a netip.Addr) error {
	n := &netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: hardware(farMAC), Family: unix.AF_INET}
	if a.Is6() {
		n.Family = unix.AF_INET6
	}
	if err := w.netlink.NeighSet(n); err != nil {
		return fmt.Errorf("answer for the neighbour %s: %w", a, err)
	}
	return nil
}

// meet adds the neighbours on the paths to some addresses to the kernel's tables, so
// that a packet to them does not have to wait, and XDP finds them.
func (w *topology) meet(addresses []netip.Addr) error {
	for _, a := range addresses {
		if w.met[a] {
			continue
		}
		w.met[a] = true
		routes, err := w.netlink.RouteGet(a.AsSlice())
		if err != nil || len(routes) == 0 || routes[0].Type != unix.RTN_UNICAST {
			continue // there is no route: the kernel answers the packet
		}
		next := a
		if via, ok := netip.AddrFromSlice(routes[0].Gw); ok {
			next = via.Unmap()
		}
		for _, d := range w.devices {
			if d.nearIndex != routes[0].LinkIndex {
				continue
			}
			if err := w.know(d.nearIndex, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// behind routes answers to a out of the device that a arrived by, unless a route
// other than the default route of this package exists.
func (w *topology) behind(d device, a netip.Addr) error {
	if w.met[a] || !a.IsGlobalUnicast() {
		return nil
	}
	routes, err := w.netlink.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 || routes[0].LinkIndex == d.nearIndex {
		return nil
	}
	gateway := gateway4
	if a.Is6() {
		gateway = gateway6
	}
	if via, _ := netip.AddrFromSlice(routes[0].Gw); via.Unmap() != gateway {
		return nil
	}
	if err := w.addRoute(d.nearIndex, HostRoute{To: netip.PrefixFrom(a, a.BitLen()), Via: gateway}); err != nil {
		return fmt.Errorf("add a route back to %s: %w", a, err)
	}
	return nil
}
