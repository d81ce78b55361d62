package datapath

// Which frames the guard sees: all that Linux takes for the interface, however they
// are tagged and addressed.

import (
	"bytes"
	"testing"

	"weft/internal/state"
)

// priorities are tags that Linux takes off, and how deep they are.
func priorities() map[string]func(frame []byte) []byte {
	customer, service := state.VLANTag{Proto: state.VLANCustomer}, state.VLANTag{Proto: state.VLANService}
	return map[string]func([]byte) []byte{
		"802.1Q VID 0":                func(f []byte) []byte { return tagged(f, state.VLANTags{customer}, 0xe000) },
		"802.1Q VID 0 without bits":   func(f []byte) []byte { return tagged(f, state.VLANTags{customer}, 0) },
		"802.1Q VID 0, drop eligible": func(f []byte) []byte { return tagged(f, state.VLANTags{customer}, 0x1000) },
		"802.1ad VID 0":               func(f []byte) []byte { return tagged(f, state.VLANTags{service}, 0xe000) },
		"VID 0 twice":                 func(f []byte) []byte { return tagged(f, state.VLANTags{customer, customer}, 0) },
		"802.1ad VID 0 around 802.1Q": func(f []byte) []byte { return tagged(f, state.VLANTags{service, customer}, 0) },
		"802.1Q VID 0 around 802.1ad": func(f []byte) []byte { return tagged(f, state.VLANTags{customer, service}, 0x2000) },
	}
}

// linkGroups are link addresses whose frames the stack takes beside those to the interface.
func linkGroups() map[string][6]byte {
	return map[string][6]byte{
		"broadcast":              {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"an IPv4 group":          {1, 0, 0x5e, 0, 0, 1},
		"an IPv6 group":          {0x33, 0x33, 0, 0, 0, 1},
		"any group":              {3, 1, 2, 3, 4, 5},
		"a virtual router, IPv4": {0, 0, 0x5e, 0, 1, 7},
		"a virtual router, IPv6": {0, 0, 0x5e, 0, 2, 255},
	}
}

func TestTheGuardSeesPriorityTags(t *testing.T) {
	r := newRouter(t)
	r.list(entry("192.0.2.0/24", state.ListedBlocked), entry("2001:db8:bad::/48", state.ListedBlocked))
	one := state.GuardRate{PerSecond: 1}
	for _, build := range builds {
		r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardSYNSource: one, state.GuardICMPSource: one}})
		source := byte(1)
		for name, tag := range priorities() {
			for _, p := range []packet{udp("192.0.2.1", inside4, 9), udp("2001:db8:bad::1", inside6, 9)} {
				frame := tag(r.frame("lan", p.bytes()))
				res, got := r.one(build, frame)
				if err := differs(res, got, state.DropBlocked, verdictOf(build, got), frame); err != nil {
					t.Errorf("%s: %s from a blocked source: %v", build, name, err)
				}
			}
			// rates: one in a second of each source; tags make no source another
			from := addrOf([]byte{203, 0, 113, source})
			source++
			syn := tcp(from, inside4, 2, nil, 4)
			if _, got := r.one(build, tag(r.frame("lan", syn.bytes()))); got != state.ForwardRouted {
				t.Errorf("%s: %s: the first SYN met %s", build, name, got)
			}
			if _, got := r.one(build, tag(r.frame("lan", syn.bytes()))); got != state.DropSynRate {
				t.Errorf("%s: %s: the second SYN met %s", build, name, got)
			}
			if _, got := r.one(build, r.frame("lan", syn.bytes())); got != state.DropSynRate {
				t.Errorf("%s: %s: a third SYN, without tag, met %s", build, name, got)
			}
			if _, got := r.one(build, tag(r.frame("lan", ping(from, inside4).bytes()))); got != state.ForwardRouted {
				t.Errorf("%s: %s: the first ping met %s", build, name, got)
			}
			if _, got := r.one(build, tag(r.frame("lan", ping(from, inside4).bytes()))); got != state.DropIcmpRate {
				t.Errorf("%s: %s: the second ping met %s", build, name, got)
			}
		}
		// more tags than are looked behind: Linux would take off all
		zero := state.VLANTags{{Proto: state.VLANCustomer}, {Proto: state.VLANCustomer}}
		for _, p := range []packet{udp("192.0.2.1", inside4, 9), udp("203.0.113.200", inside4, 9)} {
			deep := tagged(tagged(r.frame("lan", p.bytes()), zero, 0), zero, 0)
			res, got := r.one(build, deep)
			if err := differs(res, got, state.DropBadHeader, verdictOf(build, got), deep); err != nil {
				t.Errorf("%s: four priority tags: %v", build, err)
			}
		}
	}
}

// A priority tag around the tag of a VLAN, or within it, belongs to the VLAN.
func TestTheGuardOfAVLANSeesPriorityTags(t *testing.T) {
	r := newRouter(t)
	r.stack(vlan7, "#9001", mac7, true)
	r.list(entry("192.0.2.0/24", state.ListedBlocked))
	for _, build := range builds {
		r.guarded(build, state.Guard{})
		r.apply(state.Port{Device: "#9001", MAC: mac7, Roles: state.Roles(0).With(state.RoleRouted, true).With(state.RoleGuarded, true)})
		r.apply(state.Guard{Device: "#9001", XDP: build == "ingress_xdp"})
		zero := state.VLANTag{Proto: state.VLANCustomer}
		for name, tags := range map[string]state.VLANTags{"the VLAN's alone": vlan7, "around": {zero, vlan7[0]}, "within": {vlan7[0], zero}} {
			for from, want := range map[string]state.Outcome{"192.0.2.1": state.DropBlocked, "203.0.113.9": state.ForwardRouted} {
				if _, got := r.one(build, tagged(to(r.frame("lan", udp(from, inside4, 9).bytes()), mac7), tags, 0x4000)); got != want {
					t.Errorf("%s: tag %s, from %s: met %s, want %s", build, name, from, got, want)
				}
			}
		}
	}
}

func TestTheGuardSeesFramesToGroups(t *testing.T) {
	r := newRouter(t)
	r.list(entry("192.0.2.0/24", state.ListedBlocked), entry("2001:db8:bad::/48", state.ListedBlocked))
	one := state.GuardRate{PerSecond: 1}
	for _, build := range builds {
		r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardICMPSource: one}})
		source := byte(1)
		for name, mac := range linkGroups() {
			for _, p := range []packet{udp("192.0.2.1", inside4, 9), udp("2001:db8:bad::1", inside6, 9)} {
				frame := to(r.frame("lan", p.bytes()), mac)
				res, got := r.one(build, frame)
				if err := differs(res, got, state.DropBlocked, verdictOf(build, got), frame); err != nil {
					t.Errorf("%s: %s from a blocked source: %v", build, name, err)
				}
				frame = tagged(frame, state.VLANTags{{Proto: state.VLANCustomer}}, 0)
				if _, got := r.one(build, frame); got != state.DropBlocked {
					t.Errorf("%s: %s with a priority tag met %s", build, name, got)
				}
			}
			from := addrOf([]byte{203, 0, 113, source})
			source++
			frame := to(r.frame("lan", ping(from, inside4).bytes()), mac)
			if res, got := r.one(build, frame); outcomeIsDrop(got) || got == state.ForwardRouted || !bytes.Equal(res.frame, frame) {
				t.Errorf("%s: %s: the first ping met %s, want it left to the stack as it is", build, name, got)
			}
			if _, got := r.one(build, frame); got != state.DropIcmpRate {
				t.Errorf("%s: %s: the second ping met %s", build, name, got)
			}
		}
		// what is addressed to another station is not the guard's business: it takes from no rate
		other := to(r.frame("lan", ping("203.0.113.99", inside4).bytes()), [6]byte{2, 9, 9, 9, 9, 9})
		for range 3 {
			if _, got := r.one(build, other); outcomeIsDrop(got) {
				t.Errorf("%s: a frame to another station met %s", build, got)
			}
		}
		if _, got := r.one(build, r.frame("lan", ping("203.0.113.99", inside4).bytes())); got != state.ForwardRouted {
			t.Errorf("%s: frames to another station took from a rate: %s", build, got)
		}
	}
}

func outcomeIsDrop(o state.Outcome) bool { return o >= state.DropTruncated }
