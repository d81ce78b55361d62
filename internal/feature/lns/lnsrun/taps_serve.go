package lnsrun

import (
	"context"

	"weft/internal/slowpath"
	"weft/internal/state"
)

// tap is the user-space end of a section's device.
type tap struct {
	device device
	cancel context.CancelFunc
}

// device is a *slowpath.Device.
type device interface {
	Serve(ctx context.Context, handle func(ip []byte, how state.Arrival) []slowpath.Packet) error
	Put(slowpath.Packet) error
	Close() error
}

// serveTaps opens and closes the user-space ends of the devices.
func (s *subscribers) serveTaps(facts state.Facts) {
	wanted := map[string]bool{}
	for _, name := range s.devices {
		wanted[name] = true
		link, there := facts.Link(name)
		if s.taps[name] != nil || !there {
			continue
		}
		device, err := slowpath.Open(name, link.MAC)
		if err != nil {
			s.log.Error("cannot open the device of the subscribers' slow path", "device", name, "error", err)
			continue
		}
		inner, cancel := context.WithCancel(s.ctx)
		t := &tap{device, cancel}
		s.taps[name] = t
		s.tasks.Go(func() { s.serveTap(inner, name, t) })
	}
	for name, t := range s.taps {
		if !wanted[name] {
			t.cancel()
			delete(s.taps, name)
		}
	}
}

// serveTap passes slow-path packets to the loop, until ctx ends.
func (s *subscribers) serveTap(ctx context.Context, name string, t *tap) {
	defer t.device.Close()
	err := t.device.Serve(ctx, func(ip []byte, _ state.Arrival) []slowpath.Packet {
		_ = s.box.Ask(ctx, func(s *subscribers) {
			s.guard.Do("packet to a subscriber", ip, func() { s.engine.Transmit(name, ip) })
			s.settle() // the buffer is used again after this
		})
		return nil
	})
	if err == nil || ctx.Err() != nil {
		return
	}
	s.log.Warn("the subscribers' slow path was interrupted", "device", name, "error", err)
	_ = s.box.Ask(ctx, func(s *subscribers) {
		if s.taps[name] == t {
			delete(s.taps, name) // the loop opens it again
		}
	})
}
