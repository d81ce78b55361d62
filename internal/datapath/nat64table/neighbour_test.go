package nat64table

import (
	"bytes"
	"testing"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// onLinkToml has translated addresses in the subnets of both interfaces.
const onLinkToml = interfaces + `
mappings = [
  { ipv6 = "2001:db8:1::2", ipv4 = "198.51.100.2" },
  { ipv6 = "2001:db8:1:0:64::/120", ipv4 = "192.0.2.0/24", node = "ipv4" },
]
`

func TestARPIsAnsweredForTranslatedAddresses(t *testing.T) {
	b := newBench(t, onLinkToml, parts()...)
	wan := b.Links["wan"].MAC
	zero := make([]byte, 6)
	ask := datapathtest.Arp(1, datapathtest.AskerMAC, datapathtest.Asker4, zero, datapathtest.Ours4)
	answer := datapathtest.ArpFrame(datapathtest.AskerMAC, wan[:], datapathtest.Arp(2, wan[:], datapathtest.Ours4, datapathtest.AskerMAC, datapathtest.Asker4))
	padding := make([]byte, 18)
	for _, c := range []struct {
		name    string
		frame   []byte
		answer  []byte
		outcome state.Outcome
	}{
		{"a question to all", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, ask), answer, state.ForwardArpReply},
		{"a question to us alone", datapathtest.ArpFrame(wan[:], datapathtest.AskerMAC, ask), answer, state.ForwardArpReply},
		{"a padded question", append(datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, ask), padding...), append(bytes.Clone(answer), padding...), state.ForwardArpReply},
		{"a probe from no address", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.Arp(1, datapathtest.AskerMAC, "0.0.0.0", zero, datapathtest.Ours4)),
			datapathtest.ArpFrame(datapathtest.AskerMAC, wan[:], datapathtest.Arp(2, wan[:], datapathtest.Ours4, datapathtest.AskerMAC, "0.0.0.0")), state.ForwardArpReply},
		{"for another host", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.Arp(1, datapathtest.AskerMAC, datapathtest.Asker4, zero, "198.51.100.3")), nil, state.PassNotIp},
		{"for the router itself", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.Arp(1, datapathtest.AskerMAC, datapathtest.Asker4, zero, "198.51.100.1")), nil, state.PassNotIp},
		{"an announcement by its owner", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.Arp(1, datapathtest.AskerMAC, datapathtest.Ours4, zero, datapathtest.Ours4)), nil, state.PassNotIp},
		{"an answer", datapathtest.ArpFrame(wan[:], datapathtest.AskerMAC, datapathtest.Arp(2, datapathtest.AskerMAC, datapathtest.Ours4, wan[:], "198.51.100.1")), nil, state.PassNotIp},
		{"another hardware type", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.With(ask, 1, 6)), nil, state.PassNotIp},
		{"another protocol", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.With(ask, 2, 0x86, 0xdd)), nil, state.PassNotIp},
		{"addresses of other lengths", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.With(ask, 4, 8, 4)), nil, state.PassNotIp},
		{"cut off", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, ask)[:14+27], nil, state.PassNotIp},
	} {
		res := b.Run("ingress_tc", "wan", c.frame)[0]
		if err := answered(res, c.frame, c.answer, c.outcome); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if res := b.Run("ingress_tc", "lan", datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, ask))[0]; res.Verdict == 7 {
		t.Error("answered on an interface whose subnet it is not")
	}
}

// answered compares what ingress_tc made of a question.
func answered(res datapathtest.Result, frame, answer []byte, want state.Outcome) error {
	r := datapathtest.Variant{Program: "ingress_tc"}
	got, err := r.Outcome(res)
	if err != nil {
		return err
	}
	if answer == nil {
		answer = frame
	}
	return datapathtest.Differs(res, got, want, r.Verdict(want), answer)
}

// solicitation builds a neighbour solicitation (RFC 4861 section 4.3) as a
// frame, with options.
func solicitation(from, target string, options []byte) []byte {
	group := append(datapathtest.Addr("ff02::1:ff00:0").AsSlice()[:13], datapathtest.Addr(target).AsSlice()[13:]...)
	p := neighbourPacket(from, "", 135, "00000000", target, options)
	copy(p[24:40], group)
	datapathtest.Seal(p[40:], 2, from, datapathtest.AddrOf(group), 58)
	frame := append(append(append([]byte{0x33, 0x33}, group[12:]...), datapathtest.AskerMAC...), 0x86, 0xdd)
	return append(frame, p...)
}

func neighbourPacket(from, to string, kind byte, flags, target string, options []byte) []byte {
	if to == "" {
		to = "ff02::1"
	}
	body := append(datapathtest.Addr(target).AsSlice(), options...)
	p := datapathtest.Packet{From: from, To: to, Protocol: 58, Ttl: 255, Payload: datapathtest.Message(from, to, kind, 0, flags, body)}.Bytes()
	p[0], p[1] = 0x60, 0
	return p
}

func advertisement(mac [6]byte, to, flags string, toMAC []byte) []byte {
	p := neighbourPacket(datapathtest.Ours6, to, 136, flags, datapathtest.Ours6, append([]byte{2, 1}, mac[:]...))
	return append(append(append(bytes.Clone(toMAC), mac[:]...), 0x86, 0xdd), p...)
}

func TestNeighbourDiscoveryIsAnsweredForTranslatedAddresses(t *testing.T) {
	b := newBench(t, onLinkToml, parts()...)
	lan := b.Links["lan"].MAC
	source := append([]byte{1, 1}, datapathtest.AskerMAC...)
	nonce := datapathtest.Bin("0e01 010203040506")
	toAsker := advertisement(lan, datapathtest.Asker6, "c0000000", datapathtest.AskerMAC)
	toAll := advertisement(lan, "ff02::1", "80000000", []byte{0x33, 0x33, 0, 0, 0, 1})
	good := solicitation(datapathtest.Asker6, datapathtest.Ours6, source)
	elsewhere := datapathtest.With(good, 14+7, 254) // has passed a router
	wrong := datapathtest.With(good, 14+40+2, good[14+40+2]^1)
	direct := datapathtest.With(good, 0, lan[:]...)
	for _, c := range []struct {
		name    string
		frame   []byte
		answer  []byte
		outcome state.Outcome
	}{
		{"with the source's link address", good, toAsker, state.ForwardNdReply},
		{"to us alone", direct, toAsker, state.ForwardNdReply},
		{"without option", solicitation(datapathtest.Asker6, datapathtest.Ours6, nil), toAsker, state.ForwardNdReply},
		{"from a link-local address", solicitation("fe80::99", datapathtest.Ours6, source), advertisement(lan, "fe80::99", "c0000000", datapathtest.AskerMAC), state.ForwardNdReply},
		{"duplicate address detection", solicitation("::", datapathtest.Ours6, nil), toAll, state.ForwardNdReply},
		{"duplicate address detection with a nonce", solicitation("::", datapathtest.Ours6, nonce), toAll, state.ForwardNdReply},
		{"for another host", solicitation(datapathtest.Asker6, "2001:db8:1::55", source), nil, state.PassNotForUs},
		{"for an IPv6 node", solicitation(datapathtest.Asker6, "2001:db8:1::2", source), nil, state.PassNotForUs},
		{"with a wrong checksum", wrong, nil, state.DropBadHeader},
		{"from beyond a router", elsewhere, nil, state.PassNotForUs},
		{"with two options, which no stack sends", solicitation(datapathtest.Asker6, datapathtest.Ours6, append(bytes.Clone(source), nonce...)), nil, state.PassNotForUs},
		{"cut off", good[:len(good)-1], nil, state.DropTruncated},
	} {
		res := b.Run("ingress_tc", "lan", c.frame)[0]
		if err := answered(res, c.frame, c.answer, c.outcome); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestXDPLeavesQuestionsToTC(t *testing.T) {
	b := newBench(t, onLinkToml, parts()...)
	r := datapathtest.Variants()[0]
	ask := datapathtest.ArpFrame(datapathtest.Everybody(), datapathtest.AskerMAC, datapathtest.Arp(1, datapathtest.AskerMAC, datapathtest.Asker4, make([]byte, 6), datapathtest.Ours4))
	direct := datapathtest.With(ask, 0, func() []byte { m := b.Links["wan"].MAC; return m[:] }()...)
	for _, c := range []struct {
		device  string
		frame   []byte
		outcome state.Outcome
	}{
		{"wan", ask, state.PassNotForUs},
		{"wan", direct, state.PassNotIp},
		{"lan", solicitation(datapathtest.Asker6, datapathtest.Ours6, nil), state.PassNotForUs},
	} {
		res := b.Run("ingress_xdp", c.device, c.frame)[0]
		if err := r.Check(b.Bench, c.frame, res, c.outcome, nil); err != nil {
			t.Error(err)
		}
	}
}
