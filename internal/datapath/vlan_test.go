package datapath

// VLANs and bridges: what arrives below an interface, and what leaves there.
// The devices on top need not exist for the programs: only their numbers do.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"weft/internal/state"
)

var (
	noTags  = state.VLANTags{}
	vlan7   = state.VLANTags{{Proto: state.VLANCustomer, ID: 7}}
	vlan8   = state.VLANTags{{Proto: state.VLANCustomer, ID: 8}}
	service = state.VLANTags{{Proto: state.VLANService, ID: 100}}
	qinq    = state.VLANTags{{Proto: state.VLANService, ID: 100}, {Proto: state.VLANCustomer, ID: 7}}
	mac7    = [6]byte{2, 0, 0, 0, 7, 7} // of the VLAN interface
)

// tagged puts tags into a frame, each with priority bits.
func tagged(frame []byte, tags state.VLANTags, priority uint16) []byte {
	out := bytes.Clone(frame[:12])
	for _, tag := range tags[:tags.Len()] {
		out = binary.BigEndian.AppendUint16(out, tag.Proto)
		out = binary.BigEndian.AppendUint16(out, tag.ID|priority)
	}
	return append(out, frame[12:]...)
}

// to gives frame another destination.
func to(frame []byte, mac [6]byte) []byte { return with(frame, 0, mac[:]...) }

// seen is a frame as TC shows it: the outermost tag is not in it.
func seen(build string, frame []byte, tags state.VLANTags) []byte {
	if build == "ingress_tc" && tags.Len() > 0 {
		return append(bytes.Clone(frame[:12]), frame[16:]...)
	}
	return frame
}

// stack makes an interface on top of lan.
func (r *router) stack(tags state.VLANTags, device string, mac [6]byte, routed bool) {
	r.t.Helper()
	r.apply(state.Port{Device: device, MAC: mac, Roles: state.Roles(0).With(state.RoleRouted, routed)})
	r.apply(state.Lower{Device: "lan", Tags: tags, Upper: device})
}

func (r *router) apply(o state.Object) {
	r.t.Helper()
	r.in(func() error {
		return r.datapath.Apply(r.t.Context(), state.Step{Op: state.Add, Object: o})
	})
}

func TestTagsComeAndGo(t *testing.T) {
	r := newRouter(t)
	for i, tags := range []state.VLANTags{vlan7, service, qinq} {
		r.stack(tags, fmt.Sprintf("#%d", 9001+i), mac7, true)
	}
	for _, in := range []state.VLANTags{noTags, vlan7, service, qinq} {
		for _, out := range []state.VLANTags{noTags, vlan7, vlan8, service, qinq} {
			n := r.neighbour(1, 1500, true)
			n.Tags = out
			r.reach(1, n)
			for _, build := range builds {
				for _, p := range []packet{udp(router4, "198.51.100.7", 20), udp(router6, "2001:db8:1::7", 20)} {
					plain := r.frame("lan", p.bytes())
					frame := plain
					if in.Len() > 0 {
						frame = tagged(to(plain, mac7), in, 0xb000)
					}
					res, o := r.one(build, frame)
					want := seen(build, tagged(hopped(plain, n), out, 0), out)
					if err := differs(res, o, state.ForwardRouted, verdictOf(build, o), want); err != nil {
						t.Errorf("%s: from %q to %q: %v", build, in, out, err)
					}
				}
			}
		}
	}
}

func TestATagOfNobodyIsLeftAlone(t *testing.T) {
	r := newRouter(t)
	r.stack(vlan7, "#9001", mac7, true)
	r.stack(vlan8, "#9002", mac7, false)
	three := append(qinq[:], state.VLANTag{Proto: state.VLANCustomer, ID: 9})
	plain := r.frame("lan", udp(router4, "198.51.100.7", 20).bytes())
	deep := tagged(tagged(to(plain, mac7), state.VLANTags(three[1:]), 0), state.VLANTags{three[0]}, 0)
	for _, tt := range []struct {
		name  string
		frame []byte
		want  state.Outcome
	}{
		{"a VLAN without interface", tagged(plain, service, 0), state.PassNotForUs},
		{"the VLAN's number with the other kind of tag", tagged(to(plain, mac7), state.VLANTags{{Proto: state.VLANService, ID: 7}}, 0), state.PassNotForUs},
		{"another tag within the VLAN", tagged(to(plain, mac7), state.VLANTags{vlan7[0], vlan8[0]}, 0), state.PassNotForUs},
		{"the address of the device below", tagged(plain, vlan7, 0), state.PassNotForUs},
		{"the address of the VLAN interface, without tag", to(plain, mac7), state.PassNotForUs},
		{"three tags", deep, state.PassNotForUs},
	} {
		for _, build := range builds {
			res, o := r.one(build, tt.frame)
			if err := differs(res, o, tt.want, verdictOf(build, o), tt.frame); err != nil {
				t.Errorf("%s: %s: %v", build, tt.name, err)
			}
		}
	}
	frame := tagged(to(plain, mac7), vlan8, 0)
	if res := r.run("ingress_xdp", "lan", frame)[0]; res.err != nil || res.verdict != 2 || !bytes.Equal(res.frame, frame) {
		t.Errorf("a VLAN interface without routing: %+v", res)
	}
	res, o := r.one("ingress_tc", frame)
	if err := differs(res, o, state.PassNotTranslated, 1<<32-1, frame); err != nil {
		t.Errorf("a VLAN interface without routing: %v", err)
	}
}

func TestATaggedFrameIsNeverReadBeyondItsEnd(t *testing.T) {
	r := newRouter(t)
	r.stack(qinq, "#9001", mac7, true)
	for _, build := range builds {
		for _, p := range []packet{udp(router4, "198.51.107.7", 20), udp(router6, "2001:db8:8::7", 20)} {
			whole := tagged(to(r.frame("lan", p.bytes()), mac7), qinq, 0)
			for n := 14; n < len(whole); n++ {
				res := r.run(build, "lan", bytes.Clone(whole[:n]))[0]
				o, err := road{program: build}.outcome(res)
				want := state.PassOptions
				if n < 22 {
					want = state.PassNotForUs
				}
				if err != nil || o != want || !bytes.Equal(res.frame, whole[:n]) {
					t.Errorf("%s: cut at %d: %s, %v", build, n, o, err)
				}
			}
		}
	}
}

func TestWhatIsNotRoutedKeepsItsTags(t *testing.T) {
	r := newRouter(t)
	r.stack(qinq, "#9001", mac7, true)
	low := udp(router4, "198.51.100.7", 20)
	low.ttl = 1
	for _, tt := range []struct {
		packet packet
		want   state.Outcome
	}{
		{low, state.PassTtl},
		{udp(router4, "203.0.113.1", 20), state.PassNoRoute},
		{udp(router6, "2001:db8:3::7", 20), state.DropBlackhole},
		{udp(router6, "2001:db8:2::7", 1281-48), state.PassTooBig},
	} {
		for _, build := range builds {
			frame := tagged(to(r.frame("lan", tt.packet.bytes()), mac7), qinq, 0)
			res, o := r.one(build, frame)
			if err := differs(res, o, tt.want, verdictOf(build, o), frame); err != nil {
				t.Errorf("%s: %v", build, err)
			}
		}
	}
}

// A port of a bridge: what is addressed to the bridge is routed there and
// then, what is not is the bridge's.
func TestTheBridgesFramesAreRoutedOnItsPort(t *testing.T) {
	r := newRouter(t)
	r.setPorts(func(p *state.Port) {
		p.Translators, p.Roles = 0, p.Roles.With(state.RoleShortcut|state.RoleRouted, false).With(state.RoleBridgePort, p.Device == "lan")
	})
	r.stack(noTags, "#9001", mac7, true)
	r.stack(vlan7, "#9002", mac7, true)
	for _, build := range builds {
		for _, p := range []packet{udp(router4, "198.51.100.7", 20), udp(router6, "2001:db8:1::7", 20)} {
			plain := r.frame("lan", p.bytes())
			for _, tags := range []state.VLANTags{noTags, vlan7} {
				res, o := r.one(build, tagged(to(plain, mac7), tags, 0))
				if err := differs(res, o, state.ForwardRouted, verdictOf(build, o), hopped(plain, r.neighbour(1, 0, true))); err != nil {
					t.Errorf("%s: for the bridge, %q: %v", build, tags, err)
				}
			}
			res, o := r.one(build, plain)
			if err := differs(res, o, state.PassNotForUs, verdictOf(build, o), plain); err != nil {
				t.Errorf("%s: for the port: %v", build, err)
			}
		}
	}
}
