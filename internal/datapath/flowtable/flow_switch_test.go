package flowtable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/datapath"
	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// Frames with a switch's tag (DSA), as Linux's net/dsa/tag_mtk.c, tag_qca.c and
// tag_gswip.c read and write them: lan is the device in front of the switch.

// fromSwitch is a frame as the switch hands it up that came by a port.
func fromSwitch(f state.SwitchFormat, port byte, frame []byte) []byte {
	switch f {
	case state.SwitchMTK:
		return slices.Concat(frame[:12], []byte{0, port, 0, 0}, frame[12:])
	case state.SwitchQCA: // with a priority
		return slices.Concat(frame[:12], binary.BigEndian.AppendUint16(nil, 2<<14|5<<11|uint16(port)), frame[12:])
	}
	return slices.Concat([]byte{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 0x80 | port<<4 | 0xf}, frame)
}

// toSwitch is a frame, with its VLAN tag, as the switch takes it for a port.
func toSwitch(f state.SwitchFormat, port byte, tag state.VLANTag, frame []byte) []byte {
	switch {
	case f == state.SwitchMTK && tag.Proto == 0:
		return slices.Concat(frame[:12], []byte{0, 1 << port, 0, 0}, frame[12:])
	case f == state.SwitchMTK: // one with the VLAN's
		kind := map[uint16]byte{state.VLANCustomer: 1, state.VLANService: 2}[tag.Proto]
		return slices.Concat(frame[:12], []byte{kind, 1 << port}, frame[14:])
	case f == state.SwitchQCA:
		return slices.Concat(frame[:12], binary.BigEndian.AppendUint16(nil, 0x8080|1<<port), frame[12:])
	}
	return slices.Concat([]byte{2, 0, 0xc0, 1<<(port+1) | 1}, frame)
}

// loadedFor has the datapaths for each kind of switch, over the maps of all benches.
var loadedFor = map[state.SwitchFormat]*datapath.Datapath{}

var formats = []state.SwitchFormat{state.SwitchMTK, state.SwitchQCA, state.SwitchGSWIP}

// behindSwitch returns an offloader whose programs are loaded for a switch. Ports
// 3 and, with VLAN 7, 2 are interfaces.
func behindSwitch(t *testing.T, f state.SwitchFormat) *offloader {
	t.Helper()
	o := newOffloader(t)
	if loadedFor[f] == nil {
		options := o.Datapath.Options()
		options.Tables.Switch = f
		loadedFor[f] = o.Datapath.With(options)
	}
	o.Load = loadedFor[f].Load
	o.SetPorts(func(p *state.IngressEntry) {
		p.Roles = p.Roles.With(state.RoleOffloaded, false).With(state.RoleConduit, p.Device == "lan")
	})
	for _, obj := range []state.Object{
		state.IngressEntry{Device: "#9001", MAC: datapathtest.Mac7, Roles: state.RoleOffloaded},
		state.IngressEntry{Device: "#9002", MAC: datapathtest.Mac7, Roles: state.RoleOffloaded},
		state.Lower{Device: "lan", Tags: state.VLANTags{{Proto: state.SwitchTag, ID: 3}}, Upper: "#9001"},
		state.Lower{Device: "lan", Tags: state.VLANTags{{Proto: state.SwitchTag, ID: 2}, datapathtest.Vlan7[0]}, Upper: "#9002"},
	} {
		o.In(func() error {
			return o.Datapath.Apply(t.Context(), state.Step{Op: state.Add, Object: obj})
		})
	}
	return o
}

func TestFlowsCrossASwitch(t *testing.T) {
	in, out := udpBetween(member4, distant4, 1000, 53, 20), udpBetween(public4, distant4, 2000, 53, 20)
	in6, out6 := tcpBetween(member6, distant6, 1000, 80, 0x18, 20), tcpBetween("2001:db8:7::1", distant6, 1234, 80, 0x18, 20)
	peer := [6]byte{0x02, 0, 0, 0, 0x77, 0x77}
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			o := behindSwitch(t, f)
			if err := o.flows.SetSession(state.FlowSession{Below: 9001, Session: 0x1234, Peer: peer}, 9011); err != nil {
				t.Fatal(err)
			}
			for _, to := range []struct {
				name    string
				tags    state.VLANTags
				session uint16
			}{
				{"no switch", datapathtest.NoTags, 0},
				{"no switch, a VLAN", datapathtest.Vlan7, 0},
				{"no switch, QinQ and a session", datapathtest.Qinq, 0x4321},
				{"port 1", state.VLANTags{{Proto: state.SwitchTag, ID: 1}}, 0},
				{"port 5, a VLAN", state.VLANTags{{Proto: state.SwitchTag, ID: 5}, datapathtest.Vlan8[0]}, 0},
				{"port 0, a service's VLAN", state.VLANTags{{Proto: state.SwitchTag, ID: 0}, datapathtest.Service[0]}, 0},
				{"port 4, a session", state.VLANTags{{Proto: state.SwitchTag, ID: 4}}, 0x4321},
				{"port 4, a session in a VLAN", state.VLANTags{{Proto: state.SwitchTag, ID: 4}, datapathtest.Vlan7[0]}, 0x4321},
			} {
				h := o.hop(1, func(h *state.FlowHop) { h.Link.Tags, h.Link.Session = to.tags, to.session })
				for _, v := range [][2]datapathtest.Packet{{in, out}, {in6, out6}} {
					for _, by := range []uint32{9001, 9002, 9011} {
						flow := state.Flow{FlowKey: state.FlowKey{Interface: by, Tuple: tuple(v[0])}, Becomes: tuple(v[1]), Hop: 1, Generation: o.flows.Generation()}
						if _, err := o.put([]state.Flow{flow}); err != nil {
							t.Fatal(err)
						}
						plain := o.Frame("lan", v[0].Bytes())
						copy(plain, datapathtest.Mac7[:])
						var frame []byte
						switch by {
						case 9001:
							frame = fromSwitch(f, 3, plain)
						case 9002:
							frame = fromSwitch(f, 2, datapathtest.Tagged(plain, datapathtest.Vlan7, 0xb000))
						default:
							session := state.FlowHop{Link: state.FlowLink{Session: 0x1234, Src: peer, Dst: datapathtest.Mac7}}
							frame = fromSwitch(f, 3, leaves(session, v[0], 0))
						}
						bare, want := h, []byte(nil)
						if to.tags[0].Proto == state.SwitchTag {
							bare.Link.Tags = state.VLANTags{to.tags[1]}
							want = toSwitch(f, byte(to.tags[0].ID), to.tags[1], leaves(bare, v[1], 63))
						}
						for _, build := range datapathtest.Builds {
							expected := want
							if expected == nil {
								expected = datapathtest.Seen(build, leaves(h, v[1], 63), to.tags)
							}
							res, got := o.one(build, frame)
							if err := datapathtest.Differs(res, got, state.ForwardFlow, datapathtest.VerdictOf(build, state.ForwardRouted), expected); err != nil {
								t.Errorf("%s: of interface %d to %s: %v", build, by, to.name, err)
							}
						}
					}
				}
			}
		})
	}
}

func TestWhatASwitchSaysOtherwiseIsTheKernels(t *testing.T) {
	in := udpBetween(member4, distant4, 1000, 53, 20)
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			o := behindSwitch(t, f)
			o.hop(1, asItIs)
			flow := state.Flow{FlowKey: state.FlowKey{Interface: 9001, Tuple: tuple(in)}, Becomes: tuple(in), Hop: 1, Generation: o.flows.Generation()}
			if _, err := o.put([]state.Flow{flow}); err != nil {
				t.Fatal(err)
			}
			plain := o.Frame("lan", in.Bytes())
			copy(plain, datapathtest.Mac7[:])
			whole := fromSwitch(f, 3, plain)
			frames := map[string][]byte{
				"another port":                           fromSwitch(f, 4, plain),
				"a VLAN that the port has not":           fromSwitch(f, 3, datapathtest.Tagged(plain, datapathtest.Vlan8, 0)),
				"a frame for another station":            fromSwitch(f, 3, o.Frame("lan", in.Bytes())),
				"a tag in two":                           fromSwitch(f, 3, datapathtest.Tagged(plain, datapathtest.Qinq, 0)),
				"no tag at all (for mtk and qca a type)": plain,
			}
			switch f {
			case state.SwitchMTK:
				frames["a VLAN's tag that is one with the switch's"] = datapathtest.With(whole, 12, 1)
			case state.SwitchQCA:
				frames["another version"] = datapathtest.With(whole, 12, 0x40)
				frames["an answer to the driver"] = datapathtest.With(whole, 12, 0x80, 0x83)
			}
			for name, frame := range frames {
				for _, build := range datapathtest.Builds {
					if res, got := o.one(build, frame); got.Verdict() != state.Pass || !bytes.Equal(res.Frame, frame) {
						t.Errorf("%s: %s: %s", build, name, got)
					}
				}
			}
			for n := 14; n < len(whole); n++ {
				for _, build := range datapathtest.Builds {
					if res, got := o.one(build, bytes.Clone(whole[:n])); got.Verdict() != state.Pass || !bytes.Equal(res.Frame, whole[:n]) {
						t.Errorf("%s: cut at %d: %s", build, n, got)
					}
				}
			}
		})
	}
}

func TestWhatGoesToASwitchIsLearnt(t *testing.T) {
	p := udpBetween(public4, distant4, 2000, 53, 20)
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			o := behindSwitch(t, f)
			// what arrives by the interface with the number of wan leaves by lan
			o.SetPorts(func(p *state.IngressEntry) {
				p.Roles = p.Roles.With(state.RoleOffloaded, p.Device == "wan").With(state.RoleConduit, p.Device == "lan")
			})
			key := state.FlowKey{Interface: uint32(o.Links["wan"].Index), Tuple: tuple(p)}
			// read with one of its own, what an earlier test has left behind is gone
			for range 2 {
				o.leave(toSwitch(f, 0, state.VLANTag{}, leaves(state.FlowHop{Link: state.FlowLink{Src: o.Links["lan"].MAC}}, p, 63)))
			}
			_, err := o.flows.Passed(nil, 1024)
			if err := errors.Join(err, o.flows.Forget([]state.FlowKey{key})); err != nil {
				t.Fatal(err)
			}
			for port := range byte(6) {
				for _, tag := range []state.VLANTag{{}, datapathtest.Vlan7[0], datapathtest.Service[0]} {
					for _, session := range []uint16{0, 0x1234} {
						link := state.FlowLink{Dst: [6]byte{2, 0, 0, 0, 1, 1}, Src: o.Links["lan"].MAC, Session: session, Tags: state.VLANTags{tag}}
						frame := toSwitch(f, port, tag, leaves(state.FlowHop{Link: link}, p, 63))
						for range 2 { // so many make a flow worth telling
							o.leave(frame)
						}
						list, err := o.flows.Passed(nil, 1)
						link.Tags = state.VLANTags{{Proto: state.SwitchTag, ID: uint16(port)}, tag}
						if err != nil || len(list) != 1 || list[0].Link != link || list[0].Tuple != tuple(p) {
							t.Errorf("port %d, %s, session %#x: %+v %v", port, state.VLANTags{tag}, session, list, err)
						}
						if err := o.flows.Forget([]state.FlowKey{key}); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		})
	}
}

// leave has a frame that came by wan leave by lan.
func (o *offloader) leave(frame []byte) {
	o.T.Helper()
	o.In(func() error {
		_, err := o.Program("flow_egress").Run(&ebpf.RunOptions{
			Data: frame, DataOut: make([]byte, len(frame)+64),
			Context: datapathtest.SkbContext{Ingress: uint32(o.Links["wan"].Index), Ifindex: uint32(o.Links["lan"].Index)},
		})
		return err
	})
}
