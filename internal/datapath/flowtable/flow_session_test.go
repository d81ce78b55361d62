package flowtable

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// egress has a packet that came by a device (0: by none that is known) leave by lan.
func (o *offloader) egress(program string, data []byte, ingress int) {
	o.T.Helper()
	o.In(func() error {
		_, err := o.Program(program).Run(&ebpf.RunOptions{
			Data: data, DataOut: make([]byte, len(data)+64),
			Context: datapathtest.SkbContext{Ingress: uint32(ingress), Ifindex: uint32(o.Links["lan"].Index)},
		})
		return err
	})
}

// PPP forgets by which interface a packet came: the session's own device is where
// that is seen. The kernel takes the bytes where a type would be in a link header
// for the packet's type, hence the odd sources here.
func TestWhatEntersASessionIsLearntBelowIt(t *testing.T) {
	for _, p := range []datapathtest.Packet{udpBetween("8.0.0.1", distant4, 2000, 53, 20), tcpBetween("2001:db8:86dd::1", distant6, 1234, 80, 0x10, 20)} {
		o := newOffloader(t)
		o.SetPorts(func(p *state.IngressEntry) { p.Roles = p.Roles.With(state.RoleOffloaded, p.Device == "wan") })
		wan := o.Links["wan"].Index
		entered := o.Table("flow_entered") // shared by tests
		for k := make([]byte, entered.KeySize()); entered.NextKey(nil, &k) == nil; {
			if err := entered.Delete(k); err != nil {
				t.Fatal(err)
			}
		}
		key := state.FlowKey{Interface: uint32(wan), Tuple: tuple(p)}
		link := state.FlowLink{Dst: [6]byte{2, 0, 0, 0, 1, 1}, Src: o.Links["lan"].MAC, Session: 0x1234, Tags: datapathtest.Vlan7}
		below := leaves(state.FlowHop{Link: link}, p, 63)
		notified := func() []state.PassedFlow {
			t.Helper()
			// one that always causes an event, since Passed waits
			last := udpBetween("192.0.2.200", distant4, 9, 9, 20)
			for range 2 {
				o.egress("flow_egress", leaves(state.FlowHop{Link: state.FlowLink{Src: o.Links["lan"].MAC}}, last, 63), wan)
			}
			list, err := o.flows.Passed(nil, 1024)
			if err := errors.Join(err, o.flows.Forget([]state.FlowKey{key, {Interface: uint32(wan), Tuple: tuple(last)}})); err != nil || len(list) == 0 {
				t.Fatal(list, err)
			}
			return list[:len(list)-1]
		}
		notified()
		for range 4 {
			o.egress("flow_egress", below, 0)
		}
		if list := notified(); len(list) != 0 {
			t.Errorf("learnt without having been seen to enter: %+v", list)
		}
		for range 2 {
			o.egress("flow_session_egress", p.Bytes(), wan)
			o.egress("flow_egress", below, 0)
		}
		if list := notified(); len(list) != 1 || list[0].Interface != uint32(wan) || list[0].Tuple != key.Tuple || list[0].Link != link {
			t.Errorf("%s: %+v is learnt", p.From, list)
		}
		plain := leaves(state.FlowHop{Link: state.FlowLink{Dst: link.Dst, Src: link.Src}}, p, 63)
		for range 4 {
			o.egress("flow_egress", plain, 0)
		}
		if list := notified(); len(list) != 0 {
			t.Errorf("the router's own packets outside of sessions are learnt: %+v", list)
		}
	}
}
