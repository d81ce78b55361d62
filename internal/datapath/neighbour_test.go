package datapath

import (
	"bytes"
	"testing"

	"weft/internal/state"
)

const (
	asker6, asker4 = "2001:db8:1::99", "198.51.100.99"
	ours6, ours4   = "2001:db8:1:0:64::7", "198.51.100.2"
)

// onLinkToml has translated addresses in the subnets of both interfaces.
const onLinkToml = interfaces + `
mappings = [
  { ipv6 = "2001:db8:1::2", ipv4 = "198.51.100.2" },
  { ipv6 = "2001:db8:1:0:64::/120", ipv4 = "192.0.2.0/24", node = "ipv4" },
]
`

// askerMAC is the source of the frames that bench.frame makes.
var askerMAC = []byte{0x02, 0, 0, 0, 0x77, 0x77}

func everybody() []byte { return bytes.Repeat([]byte{0xff}, 6) }

// arp builds an ARP packet of RFC 826.
func arp(operation byte, senderMAC []byte, sender string, targetMAC []byte, target string) []byte {
	b := append(bin("0001 0800 06 04 00"), operation)
	b = append(append(b, senderMAC...), addr(sender).AsSlice()...)
	return append(append(b, targetMAC...), addr(target).AsSlice()...)
}

func arpFrame(to, from, packet []byte) []byte {
	return append(append(append(bytes.Clone(to), from...), 0x08, 0x06), packet...)
}

func TestARPIsAnsweredForTranslatedAddresses(t *testing.T) {
	b := newBench(t, onLinkToml)
	wan := b.links["wan"].MAC
	nobody := make([]byte, 6)
	ask := arp(1, askerMAC, asker4, nobody, ours4)
	answer := arpFrame(askerMAC, wan[:], arp(2, wan[:], ours4, askerMAC, asker4))
	padding := make([]byte, 18)
	for _, c := range []struct {
		name    string
		frame   []byte
		answer  []byte
		outcome state.Outcome
	}{
		{"a question to all", arpFrame(everybody(), askerMAC, ask), answer, state.ForwardArpReply},
		{"a question to us alone", arpFrame(wan[:], askerMAC, ask), answer, state.ForwardArpReply},
		{"a padded question", append(arpFrame(everybody(), askerMAC, ask), padding...), append(bytes.Clone(answer), padding...), state.ForwardArpReply},
		{"a probe from no address", arpFrame(everybody(), askerMAC, arp(1, askerMAC, "0.0.0.0", nobody, ours4)),
			arpFrame(askerMAC, wan[:], arp(2, wan[:], ours4, askerMAC, "0.0.0.0")), state.ForwardArpReply},
		{"for somebody else", arpFrame(everybody(), askerMAC, arp(1, askerMAC, asker4, nobody, "198.51.100.3")), nil, state.PassNotIp},
		{"for the router itself", arpFrame(everybody(), askerMAC, arp(1, askerMAC, asker4, nobody, "198.51.100.1")), nil, state.PassNotIp},
		{"an announcement by its owner", arpFrame(everybody(), askerMAC, arp(1, askerMAC, ours4, nobody, ours4)), nil, state.PassNotIp},
		{"an answer", arpFrame(wan[:], askerMAC, arp(2, askerMAC, ours4, wan[:], "198.51.100.1")), nil, state.PassNotIp},
		{"another hardware type", arpFrame(everybody(), askerMAC, with(ask, 1, 6)), nil, state.PassNotIp},
		{"another protocol", arpFrame(everybody(), askerMAC, with(ask, 2, 0x86, 0xdd)), nil, state.PassNotIp},
		{"addresses of other lengths", arpFrame(everybody(), askerMAC, with(ask, 4, 8, 4)), nil, state.PassNotIp},
		{"cut off", arpFrame(everybody(), askerMAC, ask)[:14+27], nil, state.PassNotIp},
	} {
		res := b.run("ingress_tc", "wan", c.frame)[0]
		if err := answered(res, c.frame, c.answer, c.outcome); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if res := b.run("ingress_tc", "lan", arpFrame(everybody(), askerMAC, ask))[0]; res.verdict == 7 {
		t.Error("answered on an interface whose subnet it is not")
	}
}

// answered compares what ingress_tc made of a question.
func answered(res result, frame, answer []byte, want state.Outcome) error {
	r := road{program: "ingress_tc"}
	got, err := r.outcome(res)
	if err != nil {
		return err
	}
	if answer == nil {
		answer = frame
	}
	return differs(res, got, want, r.verdict(want), answer)
}

// solicitation builds a neighbour solicitation (RFC 4861 section 4.3) as a
// frame, with options.
func solicitation(from, target string, options []byte) []byte {
	group := append(addr("ff02::1:ff00:0").AsSlice()[:13], addr(target).AsSlice()[13:]...)
	p := neighbourPacket(from, "", 135, "00000000", target, options)
	copy(p[24:40], group)
	seal(p[40:], 2, from, addrOf(group), 58)
	frame := append(append(append([]byte{0x33, 0x33}, group[12:]...), askerMAC...), 0x86, 0xdd)
	return append(frame, p...)
}

func neighbourPacket(from, to string, kind byte, flags, target string, options []byte) []byte {
	if to == "" {
		to = "ff02::1"
	}
	body := append(addr(target).AsSlice(), options...)
	p := packet{from: from, to: to, protocol: 58, ttl: 255, payload: message(from, to, kind, 0, flags, body)}.bytes()
	p[0], p[1] = 0x60, 0
	return p
}

func advertisement(mac [6]byte, to, flags string, toMAC []byte) []byte {
	p := neighbourPacket(ours6, to, 136, flags, ours6, append([]byte{2, 1}, mac[:]...))
	return append(append(append(bytes.Clone(toMAC), mac[:]...), 0x86, 0xdd), p...)
}

func TestNeighbourDiscoveryIsAnsweredForTranslatedAddresses(t *testing.T) {
	b := newBench(t, onLinkToml)
	lan := b.links["lan"].MAC
	source := append([]byte{1, 1}, askerMAC...)
	nonce := bin("0e01 010203040506")
	toAsker := advertisement(lan, asker6, "c0000000", askerMAC)
	toAll := advertisement(lan, "ff02::1", "80000000", []byte{0x33, 0x33, 0, 0, 0, 1})
	good := solicitation(asker6, ours6, source)
	elsewhere := with(good, 14+7, 254) // has passed a router
	wrong := with(good, 14+40+2, good[14+40+2]^1)
	direct := with(good, 0, lan[:]...)
	for _, c := range []struct {
		name    string
		frame   []byte
		answer  []byte
		outcome state.Outcome
	}{
		{"with the source's link address", good, toAsker, state.ForwardNdReply},
		{"to us alone", direct, toAsker, state.ForwardNdReply},
		{"without option", solicitation(asker6, ours6, nil), toAsker, state.ForwardNdReply},
		{"from a link-local address", solicitation("fe80::99", ours6, source), advertisement(lan, "fe80::99", "c0000000", askerMAC), state.ForwardNdReply},
		{"duplicate address detection", solicitation("::", ours6, nil), toAll, state.ForwardNdReply},
		{"duplicate address detection with a nonce", solicitation("::", ours6, nonce), toAll, state.ForwardNdReply},
		{"for somebody else", solicitation(asker6, "2001:db8:1::55", source), nil, state.PassNotForUs},
		{"for an IPv6 node", solicitation(asker6, "2001:db8:1::2", source), nil, state.PassNotForUs},
		{"with a wrong checksum", wrong, nil, state.DropBadHeader},
		{"from beyond a router", elsewhere, nil, state.PassNotForUs},
		{"with two options, which no stack sends", solicitation(asker6, ours6, append(bytes.Clone(source), nonce...)), nil, state.PassNotForUs},
		{"cut off", good[:len(good)-1], nil, state.DropTruncated},
	} {
		res := b.run("ingress_tc", "lan", c.frame)[0]
		if err := answered(res, c.frame, c.answer, c.outcome); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestXDPLeavesQuestionsToTC(t *testing.T) {
	b := newBench(t, onLinkToml)
	r := roads()[0]
	ask := arpFrame(everybody(), askerMAC, arp(1, askerMAC, asker4, make([]byte, 6), ours4))
	direct := with(ask, 0, func() []byte { m := b.links["wan"].MAC; return m[:] }()...)
	for _, c := range []struct {
		device  string
		frame   []byte
		outcome state.Outcome
	}{
		{"wan", ask, state.PassNotForUs},
		{"wan", direct, state.PassNotIp},
		{"lan", solicitation(asker6, ours6, nil), state.PassNotForUs},
	} {
		res := b.run("ingress_xdp", c.device, c.frame)[0]
		if err := r.check(b, c.frame, res, c.outcome, nil); err != nil {
			t.Error(err)
		}
	}
}
