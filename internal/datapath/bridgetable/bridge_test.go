package bridgetable

import (
	"bytes"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// A port of a bridge: every vector through the program at its entrance, as
// (frame, verdict, counter). lan is a guest's port, wan the uplink.

var guestMAC = []byte{2, 0, 0, 0, 0x11, 0x11}

func newBridge(t *testing.T, change func(*state.BridgeGuard)) *router {
	r := newRouter(t, parts()...)
	guest := state.BridgeGuard{
		Device: "lan", Bridge: "#9100", Role: state.BridgeGuest, Member: true, Isolated: true, NoDHCP: true, NoRA: true, PVID: 1, MaxMACs: 2,
	}
	change(&guest)
	// benches share maps: what another test left at this port goes first
	r.In(func() error {
		return r.Datapath.Apply(t.Context(), state.Step{Op: state.Remove, Object: guest})
	})
	r.Apply(guest)
	r.Apply(state.BridgeGuard{Device: "wan", Bridge: "#9100", Role: state.BridgeUplink, Member: true, PVID: 1})
	r.Apply(state.BridgeGuard{Device: "#9100", Bridge: "#9100", Role: state.BridgeHost})
	return r
}

func (r *router) enter(frame []byte) (datapathtest.Result, state.Outcome) {
	r.T.Helper()
	res := r.Run("bridge_port_in", "lan", frame)[0]
	o, err := datapathtest.Variant{Program: "bridge_port_in"}.Outcome(res)
	if err != nil {
		r.T.Fatal(err)
	}
	return res, o
}

func ethernet(to, from []byte, kind uint16, body []byte) []byte {
	frame := append(append(append(bytes.Clone(to), from...), byte(kind>>8), byte(kind)), body...)
	return append(frame, make([]byte, max(0, 60-len(frame)))...)
}

func TestAGuestsPortLetsThroughWhatItMay(t *testing.T) {
	r := newBridge(t, func(*state.BridgeGuard) {})
	all := datapathtest.Everybody()
	good := datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20).Bytes()
	ra := datapathtest.Packet{From: "fe80::1", To: "ff02::1", Protocol: 58, Ttl: 255, Payload: datapathtest.Message("fe80::1", "ff02::1", 134, 0, "40000708", make([]byte, 8))}
	hidden := ra
	hidden.Protocol, hidden.Options = 60, []byte{58, 0, 1, 4, 0, 0, 0, 0}
	cut := ra
	cut.Protocol, cut.Options, cut.Payload = 44, []byte{60, 0, 0, 1, 0, 0, 0, 7, 58, 0, 1, 4, 0, 0, 0, 0}, nil
	later := cut
	later.Options = []byte{58, 0, 0, 8, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8}
	server := datapathtest.Packet{From: "192.0.2.9", To: "255.255.255.255", Protocol: 17, Payload: datapathtest.Bin("0043 0044 0010 0000 0000000000000000")}
	fragment := server
	fragment.Flags = 1
	server6 := datapathtest.Packet{From: "fe80::1", To: "ff02::1", Protocol: 17, Payload: datapathtest.Bin("0223 0222 0010 0000 0000000000000000")}
	for _, c := range []struct {
		name  string
		frame []byte
		want  state.Outcome
	}{
		{"IPv4", ethernet(all, guestMAC, 0x0800, good), state.PassBridged},
		{"ARP", datapathtest.ArpFrame(all, guestMAC, datapathtest.Arp(1, guestMAC, datapathtest.Asker4, make([]byte, 6), datapathtest.Ours4)), state.PassBridged},
		{"ARP in another's name", datapathtest.ArpFrame(all, guestMAC, datapathtest.Arp(1, datapathtest.AskerMAC, datapathtest.Asker4, make([]byte, 6), datapathtest.Ours4)), state.DropPortArp},
		{"from a group", ethernet(all, []byte{1, 0, 0x5e, 0, 0, 1}, 0x0800, good), state.DropPortSource},
		{"from the zero address", ethernet(all, make([]byte, 6), 0x0800, good), state.DropPortSource},
		{"a tag", datapathtest.Tagged(ethernet(all, guestMAC, 0x0800, good), datapathtest.Vlan7, 0), state.DropPortVlan},
		{"a priority tag", datapathtest.Tagged(ethernet(all, guestMAC, 0x0800, good), state.VLANTags{{Proto: state.VLANCustomer}}, 0xe000), state.DropPortVlan},
		{"two tags", datapathtest.Tagged(ethernet(all, guestMAC, 0x0800, good), datapathtest.Qinq, 0), state.DropPortVlan},
		{"spanning tree", ethernet([]byte{1, 0x80, 0xc2, 0, 0, 0}, guestMAC, 38, datapathtest.Bin("424203")), state.DropPortManagement},
		{"pause", ethernet([]byte{1, 0x80, 0xc2, 0, 0, 1}, guestMAC, 0x8808, datapathtest.Bin("0001ffff")), state.DropPortManagement},
		{"LLDP to all", ethernet(all, guestMAC, 0x88cc, nil), state.DropPortManagement},
		{"the last address that stays on a link", ethernet([]byte{1, 0x80, 0xc2, 0, 0, 0x0f}, guestMAC, 0x0800, good), state.DropPortManagement},
		{"the first that does not", ethernet([]byte{1, 0x80, 0xc2, 0, 0, 0x10}, guestMAC, 0x0800, good), state.PassBridged},
		{"a router", ethernet(all, guestMAC, 0x86dd, ra.Bytes()), state.DropPortRa},
		{"a router behind options", ethernet(all, guestMAC, 0x86dd, hidden.Bytes()), state.DropPortRa},
		{"a first fragment without its message", ethernet(all, guestMAC, 0x86dd, cut.Bytes()), state.DropPortHeaders},
		{"and with bytes behind its end", append(ethernet(all, guestMAC, 0x86dd, cut.Bytes()), make([]byte, 64)...), state.DropPortHeaders},
		{"a later fragment", ethernet(all, guestMAC, 0x86dd, later.Bytes()), state.PassBridged},
		{"a DHCP server", ethernet(all, guestMAC, 0x0800, server.Bytes()), state.DropPortDhcp},
		{"a later fragment of one", ethernet(all, guestMAC, 0x0800, fragment.Bytes()), state.PassBridged},
		{"a DHCPv6 server", ethernet(all, guestMAC, 0x86dd, server6.Bytes()), state.DropPortDhcp},
		{"an IPv6 header that is none", ethernet(all, guestMAC, 0x86dd, good), state.DropPortHeaders},
	} {
		res, o := r.enter(c.frame)
		if err := datapathtest.Differs(res, o, c.want, datapathtest.Variant{Name: "tc", Program: "bridge_port_in"}.Verdict(c.want), c.frame); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// cut at every byte: nothing may be read that is not there
	whole := ethernet(all, guestMAC, 0x86dd, hidden.Bytes())
	for n := 14 + 40; n < 14+40+8+8; n++ {
		if _, o := r.enter(whole[:n]); o == state.PassBridged {
			t.Errorf("an advertisement of which %d bytes are left is let through", n)
		}
	}
}

func TestAPortHasAsManyAddressesAsItMay(t *testing.T) {
	r := newBridge(t, func(*state.BridgeGuard) {})
	frame := func(last byte) []byte {
		return ethernet(datapathtest.Everybody(), []byte{2, 0, 0, 0, 0x22, last}, 0x0800, datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20).Bytes())
	}
	for i, want := range []state.Outcome{state.PassBridged, state.PassBridged, state.DropPortMacLimit, state.DropPortMacLimit} {
		if _, o := r.enter(frame(byte(i))); o != want {
			t.Errorf("address %d: %v, want %v", i, o, want)
		}
	}
	if _, o := r.enter(frame(0)); o != state.PassBridged {
		t.Errorf("an address that was there already: %v", o)
	}
	r.In(func() error {
		macs, err := Of(r.Datapath).LearnedMACs()
		at := 0
		for _, m := range macs {
			if m.Device == "lan" {
				at++
			}
		}
		if at != 2 {
			t.Errorf("%d addresses are known at the port, want 2: %v", at, macs)
		}
		return err
	})
	r.In(func() error {
		drops, err := Of(r.Datapath).PortDrops()
		if drops["lan"][state.DropPortMacLimit] != 2 {
			t.Errorf("drops are %v", drops)
		}
		return err
	})
}

func TestALockedPortAndAnAddressOfAnother(t *testing.T) {
	r := newBridge(t, func(g *state.BridgeGuard) { g.Locked = true })
	r.Apply(state.Station{Bridge: "#9100", Device: "lan", MAC: [6]byte(guestMAC)})
	r.Apply(state.Station{Bridge: "#9100", Device: "wan", MAC: [6]byte(datapathtest.AskerMAC)})
	body := datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20).Bytes()
	for _, c := range []struct {
		from []byte
		want state.Outcome
	}{{guestMAC, state.PassBridged}, {datapathtest.AskerMAC, state.DropPortMoved}, {[]byte{2, 0, 0, 0, 9, 9}, state.DropPortSource}} {
		if _, o := r.enter(ethernet(datapathtest.Everybody(), c.from, 0x0800, body)); o != c.want {
			t.Errorf("from %x: %v, want %v", c.from, o, c.want)
		}
	}
}

func TestAStormEnds(t *testing.T) {
	r := newBridge(t, func(g *state.BridgeGuard) { g.Broadcast = 20 })
	frame := ethernet(datapathtest.Everybody(), guestMAC, 0x0800, datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20).Bytes())
	dropped := 0
	for range 200 {
		if _, o := r.enter(frame); o == state.DropPortStorm {
			dropped++
		}
	}
	if dropped == 0 {
		t.Error("all of 200 broadcasts came through, the limit is 20 a second")
	}
	known := ethernet(guestMAC, guestMAC, 0x0800, datapathtest.Udp(datapathtest.Router4, "198.51.100.7", 20).Bytes())
	if _, o := r.enter(known); o != state.PassBridged {
		t.Errorf("a frame to an address that is known: %v", o)
	}
}

func TestGuardsOfBridgesComeOutAsTheyWentIn(t *testing.T) {
	in := state.BridgeGuard{
		Device: "#99", Bridge: "#98", Role: state.BridgeUplink, Member: true, Tags: true, Isolated: true, Locked: true,
		NoDHCP: true, NoRA: true, Suppress: true, PVID: 7, VLANs: "1,64,4094", MaxMACs: 3, Broadcast: 200, Multicast: 1000, Unknown: 500,
	}
	v, err := encodeBridgeGuard(in, 98)
	if err != nil {
		t.Fatal(err)
	}
	if out := decodeBridgeGuard(99, v); !sameBridgeGuard(in, out) {
		t.Errorf("%v came out as %v", in, out)
	}
}
