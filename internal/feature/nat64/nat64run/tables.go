// Package nat64run is the half of the translators that touches the system.
package nat64run

import (
	"errors"
	"iter"
	"net/netip"

	"weft/internal/allocationlog"
	"weft/internal/datapath"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/nat64"
	"weft/internal/runner"
	"weft/internal/state"
	"weft/internal/store"
)

// Tables are what the nouns of translators are read from.
type Tables struct {
	nat64table.Table
	Datapath *datapath.Datapath
}

// Source returns what the nouns of the maps are read from.
func Source(d runner.Doors) any { return TablesOf(d.Datapath) }

// TablesOf returns those of a datapath; nil: nothing of weft's is in the kernel.
func TablesOf(d *datapath.Datapath) Tables { return Tables{nat64table.Of(d), d} }

// names returns the names of translators by their number.
func (t Tables) names() (map[int]string, error) {
	translators, err := t.Translators()
	names := map[int]string{}
	for _, t := range translators {
		names[t.ID] = t.Name
	}
	return names, err
}

// Traffic returns what a translator carried.
func (t Tables) Traffic(id int) (to4, to6 nat64.Volume, err error) {
	v4, v6, err := t.Volumes(id)
	return nat64.Volume(v4), nat64.Volume(v6), err
}

// named makes rows of what the datapath has; of gets the names of translators.
func named[D, R any](t Tables, all iter.Seq2[D, error], of func(names map[int]string, one D) R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		names, err := t.names()
		if err != nil {
			yield(none, err)
			return
		}
		for one, err := range all {
			if err != nil {
				yield(none, err)
				return
			}
			if !yield(of(names, one), nil) {
				return
			}
		}
	}
}

// Bound returns the bindings that have sessions.
func (t Tables) Bound() iter.Seq2[nat64.Binding, error] {
	return named(t, t.Bindings(), func(names map[int]string, b nat64table.Binding) nat64.Binding {
		return nat64.Binding{
			Translator: names[b.Translator], Protocol: state.ProtocolName(b.Protocol), IPv6: b.IPv6, IPv4: b.IPv4,
			Static: b.Static, Sessions: b.Sessions, Age: b.Age.Seconds(),
		}
	})
}

// Open returns the sessions.
func (t Tables) Open() iter.Seq2[nat64.Session, error] { return named(t, t.Sessions(), sessionRow) }

func sessionRow(names map[int]string, s nat64table.Session) nat64.Session {
	return nat64.Session{
		Translator: names[s.Translator], Protocol: state.ProtocolName(s.Protocol), State: s.State.String(),
		IPv6: s.IPv6, Remote6: netip.AddrPortFrom(s.Remote6, s.Remote4.Port()), IPv4: s.IPv4, Remote4: s.Remote4,
		Expires: s.Expires.Seconds(), Age: s.Age.Seconds(),
	}
}

// Holders returns the subscribers that have something.
func (t Tables) Holders() iter.Seq2[nat64.Subscriber, error] {
	bits := map[int]int{}
	allocators, err := t.Allocators()
	if err != nil {
		return func(yield func(nat64.Subscriber, error) bool) { yield(nat64.Subscriber{}, err) }
	}
	for _, b := range allocators {
		bits[b.ID] = b.SubscriberBits
	}
	return named(t, t.NATSubscribers(), func(names map[int]string, s nat64table.NATSubscriber) nat64.Subscriber {
		return nat64.Subscriber{
			Translator: names[s.Translator], Subscriber: netip.PrefixFrom(s.Prefix, bits[s.Translator]),
			Ports: s.Ports, Sessions: s.Sessions, Refused: s.Refused,
			Packets6to4: s.Packets[0], Bytes6to4: s.Bytes[0], Packets4to6: s.Packets[1], Bytes4to6: s.Bytes[1],
		}
	})
}

// Used returns what stateful translators have made and ended.
func (t Tables) Used() (list []nat64.Usage, err error) {
	names, err := t.names()
	if err != nil {
		return nil, err
	}
	usages, err := t.Usages()
	for _, u := range usages {
		list = append(list, nat64.Usage{
			Translator: names[u.Translator], Protocol: state.ProtocolName(u.Protocol), Bindings: u.Bindings(), Sessions: u.Sessions(),
			BindingsMade: u.BindingsMade, SessionsMade: u.SessionsMade,
		})
	}
	return list, err
}

// EventsLost returns how many events the ring had no room for.
func (t Tables) EventsLost() (uint64, error) { return t.LogEventsLost() }

// Flush ends the sessions that fit, and gives how many those were.
func (t Tables) Flush(fits func(nat64.Session) bool) (int, error) {
	names, err := t.names()
	if err != nil {
		return 0, err
	}
	var end []nat64table.Session
	for s, err := range t.Sessions() {
		if err != nil {
			return 0, err
		}
		if fits(sessionRow(names, s)) {
			end = append(end, s)
		}
	}
	return t.End(end)
}

// WhoInFile answers from a log that no daemon has open. While nothing of weft's is in the kernel the
// translators have no names.
func (t Tables) WhoInFile(path string, q nat64.WhoQuery) ([]nat64.HolderRow, error) {
	names := map[int]string{}
	if t.Datapath != nil {
		var err error
		if names, err = t.names(); err != nil {
			return nil, err
		}
	}
	log, err := store.ReadLog(path)
	if err != nil {
		return nil, err
	}
	rows, err := nat64.Holders(allocationlog.New(log, 0), allocationlog.NewLayouts(log, 0), q, names)
	return rows, errors.Join(err, log.Close())
}
