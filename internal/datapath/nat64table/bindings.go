package nat64table

import (
	"fmt"
	"iter"
	"net/netip"
	"time"

	"weft/internal/datapath"
	"weft/internal/state"
)

// Binding is an entry of the binding information base (RFC 6146 section 3.1).
type Binding struct {
	Translator int
	Protocol   uint8 // of IPv4
	IPv6, IPv4 netip.AddrPort
	Static     bool
	Sessions   int
	Age        time.Duration
}

// Session is an entry of the session table.
type Session struct {
	Translator int
	Protocol   uint8 // of IPv4
	State      state.SessionState
	IPv6, IPv4 netip.AddrPort // the node's address and port, and its mapped ones
	Remote6    netip.Addr     // the remote address as the node sees it
	Remote4    netip.AddrPort
	Expires    time.Duration // from now, without a packet
	Age        time.Duration
}

// since returns the time between two ticks.
func since(from, to uint32) time.Duration { return time.Duration(int32(to-from)) * datapath.Tick }

// Bindings iterates over the bindings, in no order. Bindings that are made or end
// meanwhile may be included or not.
func (d Table) Bindings() iter.Seq2[Binding, error] {
	now := datapath.NowTicks()
	return datapath.Entries(d.core, "nat64_bib6", func(k bib6Key, v binding) (Binding, bool) {
		return Binding{
			Translator: int(k.Translator), Protocol: k.Protocol,
			IPv6: addrPort6(k.Client.U8, k.Port), IPv4: addrPort4(v.Pool, v.PoolPort),
			Static: v.Flags&1 != 0, Sessions: int(uint32(v.Word)), Age: since(v.Made, now),
		}, v.Word&nat64BindingDead == 0
	})
}

// Sessions likewise iterates over the sessions, without expired ones.
func (d Table) Sessions() iter.Seq2[Session, error] {
	now := datapath.NowTicks()
	return datapath.Entries(d.core, "nat64_sessions", func(k sessionKey, v sessionValue) (Session, bool) {
		s := Session{
			Translator: int(v.Translator), Protocol: v.Protocol, State: state.SessionState(v.Word >> nat64PackedState),
			IPv6: addrPort6(v.Client.U8, v.Port), IPv4: addrPort4(v.Pool, v.PoolPort),
			Remote6: netip.AddrFrom16(v.Remote6.U8), Remote4: addrPort4(v.Remote, v.RemotePort),
			Expires: since(now, uint32(v.Word)), Age: since(v.Made, now),
		}
		return s, s.Expires > 0 && s.State != 255
	})
}

// Usage counts the bindings and sessions of one protocol that a translator has made
// and ended.
type Usage struct {
	Translator                  int
	Protocol                    uint8
	BindingsMade, BindingsEnded uint64
	SessionsMade, SessionsEnded uint64
}

// Bindings is the number of bindings that exist now; Sessions likewise.
func (u Usage) Bindings() uint64 { return u.BindingsMade - u.BindingsEnded }

func (u Usage) Sessions() uint64 { return u.SessionsMade - u.SessionsEnded }

// protocols in the order of enum nat64_protocol
func protocols() []uint8 { return []uint8{6, 17, 1} }

// Usages returns the usage of each stateful translator.
func (d Table) Usages() ([]Usage, error) {
	m, err := d.core.Map("nat64_usages")
	if err != nil {
		return nil, err
	}
	allocators, err := d.Allocators()
	if err != nil {
		return nil, err
	}
	var list []Usage
	for _, b := range allocators {
		for i, p := range protocols() {
			var perCPU []usage
			if err := m.Lookup(uint32(b.ID*len(protocols())+i), &perCPU); err != nil {
				return nil, fmt.Errorf("read usage of translator %d: %w", b.ID, err)
			}
			u := Usage{Translator: b.ID, Protocol: p}
			for _, v := range perCPU {
				u.BindingsMade += v.BindingsMade
				u.BindingsEnded += v.BindingsEnded
				u.SessionsMade += v.SessionsMade
				u.SessionsEnded += v.SessionsEnded
			}
			list = append(list, u)
		}
	}
	return list, nil
}
