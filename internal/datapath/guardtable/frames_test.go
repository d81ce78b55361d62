package guardtable

// Which frames the guard sees: all that Linux takes for the interface, however they
// are tagged and addressed.

import (
	"bytes"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// priorities are tags that Linux takes off, and how deep they are.
func priorities() map[string]func(frame []byte) []byte {
	customer, service := state.VLANTag{Proto: state.VLANCustomer}, state.VLANTag{Proto: state.VLANService}
	return map[string]func([]byte) []byte{
		"802.1Q VID 0":                func(f []byte) []byte { return datapathtest.Tagged(f, state.VLANTags{customer}, 0xe000) },
		"802.1Q VID 0 without bits":   func(f []byte) []byte { return datapathtest.Tagged(f, state.VLANTags{customer}, 0) },
		"802.1Q VID 0, drop eligible": func(f []byte) []byte { return datapathtest.Tagged(f, state.VLANTags{customer}, 0x1000) },
		"802.1ad VID 0":               func(f []byte) []byte { return datapathtest.Tagged(f, state.VLANTags{service}, 0xe000) },
		"VID 0 twice":                 func(f []byte) []byte { return datapathtest.Tagged(f, state.VLANTags{customer, customer}, 0) },
		"802.1ad VID 0 around 802.1Q": func(f []byte) []byte { return datapathtest.Tagged(f, state.VLANTags{service, customer}, 0) },
		"802.1Q VID 0 around 802.1ad": func(f []byte) []byte { return datapathtest.Tagged(f, state.VLANTags{customer, service}, 0x2000) },
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
	r := newRouter(t, parts()...)
	r.list(guardEntry("192.0.2.0/24", state.ListedBlocked), guardEntry("2001:db8:bad::/48", state.ListedBlocked))
	one := state.GuardRate{PerSecond: 1}
	for _, build := range datapathtest.Builds {
		r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardSYNSource: one, state.GuardICMPSource: one}})
		source := byte(1)
		for name, tag := range priorities() {
			for _, p := range []datapathtest.Packet{datapathtest.Udp("192.0.2.1", inside4, 9), datapathtest.Udp("2001:db8:bad::1", inside6, 9)} {
				frame := tag(r.Frame("lan", p.Bytes()))
				res, got := r.One(build, frame)
				if err := datapathtest.Differs(res, got, state.DropBlocked, datapathtest.VerdictOf(build, got), frame); err != nil {
					t.Errorf("%s: %s from a blocked source: %v", build, name, err)
				}
			}
			// rates: one in a second of each source; tags make no source another
			from := datapathtest.AddrOf([]byte{203, 0, 113, source})
			source++
			syn := datapathtest.Tcp(from, inside4, 2, nil, 4)
			if _, got := r.One(build, tag(r.Frame("lan", syn.Bytes()))); got != state.ForwardRouted {
				t.Errorf("%s: %s: the first SYN met %s", build, name, got)
			}
			if _, got := r.One(build, tag(r.Frame("lan", syn.Bytes()))); got != state.DropSynRate {
				t.Errorf("%s: %s: the second SYN met %s", build, name, got)
			}
			if _, got := r.One(build, r.Frame("lan", syn.Bytes())); got != state.DropSynRate {
				t.Errorf("%s: %s: a third SYN, without tag, met %s", build, name, got)
			}
			if _, got := r.One(build, tag(r.Frame("lan", ping(from, inside4).Bytes()))); got != state.ForwardRouted {
				t.Errorf("%s: %s: the first ping met %s", build, name, got)
			}
			if _, got := r.One(build, tag(r.Frame("lan", ping(from, inside4).Bytes()))); got != state.DropIcmpRate {
				t.Errorf("%s: %s: the second ping met %s", build, name, got)
			}
		}
		// more tags than are looked behind: Linux would take off all
		zero := state.VLANTags{{Proto: state.VLANCustomer}, {Proto: state.VLANCustomer}}
		for _, p := range []datapathtest.Packet{datapathtest.Udp("192.0.2.1", inside4, 9), datapathtest.Udp("203.0.113.200", inside4, 9)} {
			deep := datapathtest.Tagged(datapathtest.Tagged(r.Frame("lan", p.Bytes()), zero, 0), zero, 0)
			res, got := r.One(build, deep)
			if err := datapathtest.Differs(res, got, state.DropBadHeader, datapathtest.VerdictOf(build, got), deep); err != nil {
				t.Errorf("%s: four priority tags: %v", build, err)
			}
		}
	}
}

// A priority tag around the tag of a VLAN, or within it, belongs to the VLAN.
func TestTheGuardOfAVLANSeesPriorityTags(t *testing.T) {
	r := newRouter(t, parts()...)
	r.Stack(datapathtest.Vlan7, "#9001", datapathtest.Mac7, true)
	r.list(guardEntry("192.0.2.0/24", state.ListedBlocked))
	for _, build := range datapathtest.Builds {
		r.guarded(build, state.Guard{})
		r.Apply(state.IngressEntry{Device: "#9001", MAC: datapathtest.Mac7, Roles: state.Roles(0).With(state.RoleRouted, true).With(state.RoleGuarded, true)})
		r.Apply(state.Guard{Device: "#9001", XDP: build == "ingress_xdp"})
		zero := state.VLANTag{Proto: state.VLANCustomer}
		for name, tags := range map[string]state.VLANTags{"the VLAN's alone": datapathtest.Vlan7, "around": {zero, datapathtest.Vlan7[0]}, "within": {datapathtest.Vlan7[0], zero}} {
			for from, want := range map[string]state.Outcome{"192.0.2.1": state.DropBlocked, "203.0.113.9": state.ForwardRouted} {
				if _, got := r.One(build, datapathtest.Tagged(datapathtest.To(r.Frame("lan", datapathtest.Udp(from, inside4, 9).Bytes()), datapathtest.Mac7), tags, 0x4000)); got != want {
					t.Errorf("%s: tag %s, from %s: met %s, want %s", build, name, from, got, want)
				}
			}
		}
	}
}

func TestTheGuardSeesFramesToGroups(t *testing.T) {
	r := newRouter(t, parts()...)
	r.list(guardEntry("192.0.2.0/24", state.ListedBlocked), guardEntry("2001:db8:bad::/48", state.ListedBlocked))
	one := state.GuardRate{PerSecond: 1}
	for _, build := range datapathtest.Builds {
		r.guarded(build, state.Guard{Rates: [4]state.GuardRate{state.GuardICMPSource: one}})
		source := byte(1)
		for name, mac := range linkGroups() {
			for _, p := range []datapathtest.Packet{datapathtest.Udp("192.0.2.1", inside4, 9), datapathtest.Udp("2001:db8:bad::1", inside6, 9)} {
				frame := datapathtest.To(r.Frame("lan", p.Bytes()), mac)
				res, got := r.One(build, frame)
				if err := datapathtest.Differs(res, got, state.DropBlocked, datapathtest.VerdictOf(build, got), frame); err != nil {
					t.Errorf("%s: %s from a blocked source: %v", build, name, err)
				}
				frame = datapathtest.Tagged(frame, state.VLANTags{{Proto: state.VLANCustomer}}, 0)
				if _, got := r.One(build, frame); got != state.DropBlocked {
					t.Errorf("%s: %s with a priority tag met %s", build, name, got)
				}
			}
			from := datapathtest.AddrOf([]byte{203, 0, 113, source})
			source++
			frame := datapathtest.To(r.Frame("lan", ping(from, inside4).Bytes()), mac)
			if res, got := r.One(build, frame); outcomeIsDrop(got) || got == state.ForwardRouted || !bytes.Equal(res.Frame, frame) {
				t.Errorf("%s: %s: the first ping met %s, want it left to the stack as it is", build, name, got)
			}
			if _, got := r.One(build, frame); got != state.DropIcmpRate {
				t.Errorf("%s: %s: the second ping met %s", build, name, got)
			}
		}
		// what is addressed to another station is not the guard's business: it takes from no rate
		other := datapathtest.To(r.Frame("lan", ping("203.0.113.99", inside4).Bytes()), [6]byte{2, 9, 9, 9, 9, 9})
		for range 3 {
			if _, got := r.One(build, other); outcomeIsDrop(got) {
				t.Errorf("%s: a frame to another station met %s", build, got)
			}
		}
		if _, got := r.One(build, r.Frame("lan", ping("203.0.113.99", inside4).Bytes())); got != state.ForwardRouted {
			t.Errorf("%s: frames to another station took from a rate: %s", build, got)
		}
	}
}

func outcomeIsDrop(o state.Outcome) bool { return o >= state.DropTruncated }
