package fibtable_test

import (
	"bytes"
	"fmt"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// VLANs and bridges: what arrives below an interface, and what leaves there.
// The devices on top need not exist for the programs: only their numbers do.

func TestTagsComeAndGo(t *testing.T) {
	r := newRouter(t, parts()...)
	for i, tags := range []state.VLANTags{datapathtest.Vlan7, datapathtest.Service, datapathtest.Qinq} {
		r.Stack(tags, fmt.Sprintf("#%d", 9001+i), datapathtest.Mac7, true)
	}
	for _, in := range []state.VLANTags{datapathtest.NoTags, datapathtest.Vlan7, datapathtest.Service, datapathtest.Qinq} {
		for _, out := range []state.VLANTags{datapathtest.NoTags, datapathtest.Vlan7, datapathtest.Vlan8, datapathtest.Service, datapathtest.Qinq} {
			n := r.Neighbour(1, 1500, true)
			n.Tags = out
			r.Reach(1, n)
			for _, build := range datapathtest.Builds {
				for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:1::7", 20)} {
					plain := r.Frame("lan", p.Bytes())
					frame := plain
					if in.Len() > 0 {
						frame = datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), in, 0xb000)
					}
					res, o := r.One(build, frame)
					want := datapathtest.Seen(build, datapathtest.Tagged(datapathtest.Hopped(plain, n), out, 0), out)
					if err := datapathtest.Differs(res, o, state.ForwardRouted, datapathtest.VerdictOf(build, o), want); err != nil {
						t.Errorf("%s: from %q to %q: %v", build, in, out, err)
					}
				}
			}
		}
	}
}

func TestATagOfNobodyIsLeftAlone(t *testing.T) {
	r := newRouter(t, parts()...)
	r.Stack(datapathtest.Vlan7, "#9001", datapathtest.Mac7, true)
	r.Stack(datapathtest.Vlan8, "#9002", datapathtest.Mac7, false)
	three := append(datapathtest.Qinq[:], state.VLANTag{Proto: state.VLANCustomer, ID: 9})
	plain := r.Frame("lan", datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20).Bytes())
	deep := datapathtest.Tagged(datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), state.VLANTags(three[1:]), 0), state.VLANTags{three[0]}, 0)
	for _, tt := range []struct {
		name  string
		frame []byte
		want  state.Outcome
	}{
		{"a VLAN without interface", datapathtest.Tagged(plain, datapathtest.Service, 0), state.PassNotForUs},
		{"the VLAN's number with the other kind of tag", datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), state.VLANTags{{Proto: state.VLANService, ID: 7}}, 0), state.PassNotForUs},
		{"another tag within the VLAN", datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), state.VLANTags{datapathtest.Vlan7[0], datapathtest.Vlan8[0]}, 0), state.PassNotForUs},
		{"the address of the device below", datapathtest.Tagged(plain, datapathtest.Vlan7, 0), state.PassNotForUs},
		{"the address of the VLAN interface, without tag", datapathtest.To(plain, datapathtest.Mac7), state.PassNotForUs},
		{"three tags", deep, state.PassNotForUs},
	} {
		for _, build := range datapathtest.Builds {
			res, o := r.One(build, tt.frame)
			if err := datapathtest.Differs(res, o, tt.want, datapathtest.VerdictOf(build, o), tt.frame); err != nil {
				t.Errorf("%s: %s: %v", build, tt.name, err)
			}
		}
	}
	frame := datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), datapathtest.Vlan8, 0)
	if res := r.Run("ingress_xdp", "lan", frame)[0]; res.Err != nil || res.Verdict != 2 || !bytes.Equal(res.Frame, frame) {
		t.Errorf("a VLAN interface without routing: %+v", res)
	}
	res, o := r.One("ingress_tc", frame)
	if err := datapathtest.Differs(res, o, state.PassNotTranslated, 1<<32-1, frame); err != nil {
		t.Errorf("a VLAN interface without routing: %v", err)
	}
}

func TestATaggedFrameIsNeverReadBeyondItsEnd(t *testing.T) {
	r := newRouter(t, parts()...)
	r.Stack(datapathtest.Qinq, "#9001", datapathtest.Mac7, true)
	for _, build := range datapathtest.Builds {
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.107.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:8::7", 20)} {
			whole := datapathtest.Tagged(datapathtest.To(r.Frame("lan", p.Bytes()), datapathtest.Mac7), datapathtest.Qinq, 0)
			for n := 14; n < len(whole); n++ {
				res := r.Run(build, "lan", bytes.Clone(whole[:n]))[0]
				o, err := datapathtest.Variant{Program: build}.Outcome(res)
				want := state.PassOptions
				if n < 22 {
					want = state.PassNotForUs
				}
				if err != nil || o != want || !bytes.Equal(res.Frame, whole[:n]) {
					t.Errorf("%s: cut at %d: %s, %v", build, n, o, err)
				}
			}
		}
	}
}

func TestWhatIsNotRoutedKeepsItsTags(t *testing.T) {
	r := newRouter(t, parts()...)
	r.Stack(datapathtest.Qinq, "#9001", datapathtest.Mac7, true)
	low := datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20)
	low.Ttl = 1
	for _, tt := range []struct {
		packet datapathtest.Packet
		want   state.Outcome
	}{
		{low, state.PassTtl},
		{datapathtest.Udp(datapathtest.Router4, "203.0.113.1", 20), state.PassNoRoute},
		{datapathtest.Udp(datapathtest.Router6, "2001:db8:3::7", 20), state.DropBlackhole},
		{datapathtest.Udp(datapathtest.Router6, "2001:db8:2::7", 1281-48), state.PassTooBig},
	} {
		for _, build := range datapathtest.Builds {
			frame := datapathtest.Tagged(datapathtest.To(r.Frame("lan", tt.packet.Bytes()), datapathtest.Mac7), datapathtest.Qinq, 0)
			res, o := r.One(build, frame)
			if err := datapathtest.Differs(res, o, tt.want, datapathtest.VerdictOf(build, o), frame); err != nil {
				t.Errorf("%s: %v", build, err)
			}
		}
	}
}

// A port of a bridge: what is addressed to the bridge is routed there and
// then, what is not is the bridge's.
func TestTheBridgesFramesAreRoutedOnItsPort(t *testing.T) {
	r := newRouter(t, parts()...)
	r.SetPorts(func(p *state.IngressEntry) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleBypass|state.RoleRouted, false).With(state.RoleBridgePort, p.Device == "lan")
	})
	r.Stack(datapathtest.NoTags, "#9001", datapathtest.Mac7, true)
	r.Stack(datapathtest.Vlan7, "#9002", datapathtest.Mac7, true)
	for _, build := range datapathtest.Builds {
		for _, p := range []datapathtest.Packet{datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20), datapathtest.Udp(datapathtest.Router6, "2001:db8:1::7", 20)} {
			plain := r.Frame("lan", p.Bytes())
			for _, tags := range []state.VLANTags{datapathtest.NoTags, datapathtest.Vlan7} {
				res, o := r.One(build, datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), tags, 0))
				if err := datapathtest.Differs(res, o, state.ForwardRouted, datapathtest.VerdictOf(build, o), datapathtest.Hopped(plain, r.Neighbour(1, 0, true))); err != nil {
					t.Errorf("%s: for the bridge, %q: %v", build, tags, err)
				}
			}
			res, o := r.One(build, plain)
			if err := datapathtest.Differs(res, o, state.PassNotForUs, datapathtest.VerdictOf(build, o), plain); err != nil {
				t.Errorf("%s: for the port: %v", build, err)
			}
		}
	}
}
