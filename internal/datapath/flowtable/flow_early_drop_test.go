package flowtable

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// refuse has packets like p be dropped, as they arrive by lan.
func (o *offloader) refuse(p datapathtest.Packet, d time.Duration) state.FlowKey {
	o.T.Helper()
	k := state.FlowKey{Interface: uint32(o.Links["lan"].Index), Tuple: tuple(p)}
	if err := o.flows.PutRefusals([]state.FlowKey{k}); err != nil {
		o.T.Fatal(err)
	}
	if o.dropped(p) {
		o.T.Fatal("it is dropped before it holds")
	}
	if err := o.flows.HoldRefusals([]state.FlowKey{k}, o.flows.Generation(), 1, d); err != nil {
		o.T.Fatal(err)
	}
	return k
}

// dropped reports whether such a packet is, by either build; what is not stays as
// it is.
func (o *offloader) dropped(p datapathtest.Packet) bool {
	o.T.Helper()
	var both [2]bool
	frame := o.Frame("lan", p.Bytes())
	for i, build := range datapathtest.Builds {
		res, got := o.one(build, frame)
		both[i] = got == state.DropEarly
		if both[i] != (res.Verdict == datapathtest.VerdictOf(build, state.DropEarly)) {
			o.T.Errorf("%s counts %s and returns %d", build, got, int32(res.Verdict))
		}
		if !both[i] && !bytes.Equal(res.Frame, frame) {
			o.T.Errorf("%s changed a packet that it left alone", build)
		}
	}
	if both[0] != both[1] {
		o.T.Errorf("%s of %v dropped it: %v", tuple(p), datapathtest.Builds, both)
	}
	return both[0]
}

func TestRefusedFlowsAreDropped(t *testing.T) {
	udp4, udp6 := udpBetween(distant4, public4, 4000, 5000, 30), udpBetween(distant6, member6, 4000, 5000, 30)
	syn := tcpBetween(distant4, public4, 4000, 5000, 0x02, 0)
	for _, p := range []datapathtest.Packet{udp4, udp6, syn} {
		o := newOffloader(t)
		o.flows.Refuse(1)
		o.refuse(p, time.Hour)
		if !o.dropped(p) {
			t.Errorf("%s is not dropped", tuple(p))
		}
		o.flows.Refuse(2)
		if o.dropped(p) {
			t.Errorf("%s is dropped in another epoch", tuple(p))
		}
		o.flows.Refuse(1)
		o.flows.Lease(-time.Second, 2)
		if o.dropped(p) {
			t.Errorf("%s is dropped after the lease", tuple(p))
		}
		o.flows.Lease(time.Hour, 2)
		o.flows.Bump()
		if o.dropped(p) {
			t.Errorf("%s is dropped under another ruleset", tuple(p))
		}
	}
}

func TestWhatOnlyLooksLikeARefusedFlowIsNotDropped(t *testing.T) {
	o := newOffloader(t)
	o.flows.Refuse(1)
	o.refuse(tcpBetween(distant4, public4, 4000, 5000, 0x02, 0), time.Hour)
	o.refuse(udpBetween(distant4, public4, 4000, 53, 20), time.Hour)
	broken := udpBetween(distant4, public4, 4000, 53, 20)
	broken.Options = []byte{1, 1, 1, 1}
	for name, p := range map[string]datapathtest.Packet{
		"an answer":       tcpBetween(distant4, public4, 4000, 5000, 0x12, 0),
		"data":            tcpBetween(distant4, public4, 4000, 5000, 0x18, 9),
		"a reset":         tcpBetween(distant4, public4, 4000, 5000, 0x04, 0),
		"another port":    tcpBetween(distant4, public4, 4001, 5000, 0x02, 0),
		"the way back":    udpBetween(public4, distant4, 53, 4000, 20),
		"another address": udpBetween(distant4, member4, 4000, 53, 20),
		"IP options":      broken,
	} {
		if o.dropped(p) {
			t.Errorf("%s is dropped", name)
		}
	}
	k := state.FlowKey{Interface: uint32(o.Links["wan"].Index), Tuple: tuple(udpBetween(distant4, public4, 4000, 54, 20))}
	if err := o.flows.PutRefusals([]state.FlowKey{k}); err != nil {
		t.Fatal(err)
	}
	if err := o.flows.HoldRefusals([]state.FlowKey{k}, o.flows.Generation(), 1, time.Hour); err != nil {
		t.Fatal(err)
	}
	if o.dropped(udpBetween(distant4, public4, 4000, 54, 20)) {
		t.Error("a flow that another interface has refused is dropped")
	}
	if err := o.flows.DeleteRefusals([]state.FlowKey{k, k}); err != nil {
		t.Error(err)
	}
	gone := o.refuse(udpBetween(distant4, public4, 4000, 55, 20), -time.Second)
	if o.dropped(udpBetween(distant4, public4, 4000, 55, 20)) {
		t.Errorf("%s is dropped after its time", gone.Tuple)
	}
}

// A packet that leaves takes back what is refused the other way: its answers
// are let in, also where both sides begin at once (hole punching).
func TestAPacketThatLeavesTakesTheRefusalBack(t *testing.T) {
	for _, v := range []struct{ refused, leaves datapathtest.Packet }{
		{udpBetween(distant4, public4, 4000, 5000, 30), udpBetween(public4, distant4, 5000, 4000, 10)},
		{udpBetween(distant6, member6, 4000, 5000, 30), udpBetween(member6, distant6, 5000, 4000, 10)},
		{tcpBetween(distant4, public4, 4000, 5000, 0x02, 0), tcpBetween(public4, distant4, 5000, 4000, 0x02, 0)},
	} {
		o := newOffloader(t)
		o.flows.Refuse(1)
		k := o.refuse(v.refused, time.Hour)
		other := udpBetween(public4, distant4, 5001, 4000, 10)
		if o.Run("flow_egress", "lan", o.Frame("lan", other.Bytes())); !o.dropped(v.refused) {
			t.Fatalf("%s is not dropped", k.Tuple)
		}
		if o.Run("flow_egress", "lan", o.Frame("lan", v.leaves.Bytes())); o.dropped(v.refused) {
			t.Errorf("%s is dropped although its peer has been talked to", k.Tuple)
		}
		// what was asked before that must not come back
		if err := o.flows.HoldRefusals([]state.FlowKey{k}, o.flows.Generation(), 1, time.Hour); err != nil || o.dropped(v.refused) {
			t.Errorf("%s is dropped again (%v)", k.Tuple, err)
		}
	}
}

// What takes a refusal back may have anything before its ports, and leave by a
// device that has no link header, or of which weft knows nothing.
func TestWhateverLeavesTakesTheRefusalBack(t *testing.T) {
	refused4, refused6 := udpBetween(distant4, public4, 4000, 5000, 30), udpBetween(distant6, member6, 4000, 5000, 30)
	leaves4, leaves6 := udpBetween(public4, distant4, 5000, 4000, 40), udpBetween(member6, distant6, 5000, 4000, 40)
	options, first, later := leaves4, leaves4.Bytes(), leaves4.Bytes()
	options.Options = []byte{1, 1, 1, 1}
	first, later = datapathtest.Healed(datapathtest.With(first, 6, 0x20, 0)), datapathtest.Healed(datapathtest.With(later, 6, 0, 8))
	behind := func(next byte, header string) []byte {
		p := leaves6
		p.Protocol, p.Options = next, datapathtest.Bin(header)
		return p.Bytes()
	}
	for _, v := range []struct {
		name    string
		refused datapathtest.Packet
		leaves  []byte
		back    bool
	}{
		{"IPv4 options", refused4, options.Bytes(), true},
		{"the first of several fragments", refused4, first, true},
		{"a later fragment", refused4, later, false},
		{"the first fragment of IPv6", refused6, behind(44, "11000001aaaa1234"), true},
		{"a later fragment of IPv6", refused6, behind(44, "11000009aaaa1234"), false},
		{"IPv6 options", refused6, behind(60, "1100010400000000"), true},
		{"two headers", refused6, behind(0, "3c00010400000000"+"1100010400000000"), true},
		{"an authentication header", refused6, behind(51, "110100000000000100000001"), true},
		{"an echo request", datapathtest.Packet{From: distant4, To: public4, Protocol: 1, Payload: datapathtest.Message(distant4, public4, 0, 0, "00070001", nil)},
			datapathtest.Packet{From: public4, To: distant4, Protocol: 1, Payload: datapathtest.Message(public4, distant4, 8, 0, "00070001", nil)}.Bytes(), true},
		{"an echo reply", datapathtest.Packet{From: distant4, To: public4, Protocol: 1, Payload: datapathtest.Message(distant4, public4, 8, 0, "00070001", nil)},
			datapathtest.Packet{From: public4, To: distant4, Protocol: 1, Payload: datapathtest.Message(public4, distant4, 0, 0, "00070001", nil)}.Bytes(), true},
		{"an error", datapathtest.Packet{From: distant4, To: public4, Protocol: 1, Payload: datapathtest.Message(distant4, public4, 8, 0, "00070001", nil)},
			datapathtest.Packet{From: public4, To: distant4, Protocol: 1, Payload: datapathtest.Message(public4, distant4, 3, 0, "00070001", nil)}.Bytes(), false},
	} {
		for _, program := range []string{"flow_egress", "early_drop_egress", "without link header"} {
			o := newOffloader(t)
			o.flows.Refuse(1)
			k := o.refuse(v.refused, time.Hour)
			if !o.dropped(v.refused) {
				t.Fatalf("%s: %s is not dropped", v.name, k.Tuple)
			}
			frame := o.Frame("lan", v.leaves)
			if program == "without link header" {
				program = "early_drop_egress"
				frame = append(v.leaves, make([]byte, 14)...)
			}
			o.Run(program, "lan", frame)
			if o.dropped(v.refused) == v.back {
				t.Errorf("%s: dropped after %s left by %s: %v", v.name, k.Tuple, program, v.back)
			}
		}
	}
}

// Refusals are found in tags and in sessions.
func TestRefusedFlowsArriveInTagsAndSessions(t *testing.T) {
	o := newOffloader(t)
	o.flows.Refuse(1)
	o.In(func() error {
		return errors.Join(
			o.Datapath.Apply(t.Context(), state.Step{Op: state.Add, Object: state.IngressEntry{Device: "#9001", MAC: datapathtest.Mac7, Roles: state.RoleOffloaded}}),
			o.Datapath.Apply(t.Context(), state.Step{Op: state.Add, Object: state.Lower{Device: "lan", Tags: datapathtest.Qinq, Upper: "#9001"}}))
	})
	peer := [6]byte{0x02, 0, 0, 0, 0x77, 0x77}
	if err := o.flows.SetSession(state.FlowSession{Below: 9001, Session: 0x1234, Peer: peer}, 9012); err != nil {
		t.Fatal(err)
	}
	for _, index := range []uint32{9001, 9012} {
		for _, p := range []datapathtest.Packet{udpBetween(distant4, public4, 4000, 5000, 30), udpBetween(distant6, member6, 4000, 5000, 30)} {
			k := state.FlowKey{Interface: index, Tuple: tuple(p)}
			if err := errors.Join(o.flows.PutRefusals([]state.FlowKey{k}), o.flows.HoldRefusals([]state.FlowKey{k}, o.flows.Generation(), 1, time.Hour)); err != nil {
				t.Fatal(err)
			}
			plain := o.Frame("lan", p.Bytes())
			if index == 9012 {
				plain = leaves(state.FlowHop{Link: state.FlowLink{Session: 0x1234, Src: peer, Dst: datapathtest.Mac7}}, p, 0)
			}
			for _, build := range datapathtest.Builds {
				if _, got := o.one(build, datapathtest.Tagged(datapathtest.To(plain, datapathtest.Mac7), datapathtest.Qinq, 0)); got != state.DropEarly {
					t.Errorf("%s: of interface %d: %s met %s", build, index, k.Tuple, got)
				}
				if _, got := o.one(build, plain); got == state.DropEarly {
					t.Errorf("%s: %s is dropped where another interface has refused it", build, k.Tuple)
				}
			}
		}
	}
}
