package ppp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"weft/internal/mutator"
	"weft/wire/ppp"
)

// TestMutatedPPP is a link whose two ends get frames that the other did not send.
func TestMutatedPPP(t *testing.T) {
	var seeds [][]byte
	add := func(p ppp.Protocol, b []byte) { seeds = append(seeds, ppp.AppendFrame(nil, p, b)) }
	lcp := ppp.MarshalOptions([]ppp.Option{{Type: ppp.OptMRU, Data: []byte{5, 180}}, {Type: ppp.OptMagic, Data: []byte{1, 2, 3, 4}}, {Type: ppp.OptAuth, Data: []byte{0xc2, 0x23, 5}}})
	for code := ppp.ConfigureRequest; code <= 13; code++ {
		add(ppp.LCP, ppp.Packet{Code: code, ID: 1, Data: lcp}.Marshal())
		add(ppp.IPCP, ppp.Packet{Code: code, ID: 1, Data: []byte{3, 6, 203, 0, 113, 5, 129, 6, 192, 0, 2, 53}}.Marshal())
		add(ppp.IPV6CP, ppp.Packet{Code: code, ID: 1, Data: []byte{1, 10, 0, 0, 0, 0, 0, 0, 0, 5}}.Marshal())
	}
	for code := range ppp.Code(4) {
		add(ppp.PAP, ppp.Packet{Code: code, ID: 1, Data: ppp.MarshalPAP("alice", "wonder")}.Marshal())
		add(ppp.CHAP, ppp.Packet{Code: code + 1, ID: 1, Data: ppp.MarshalCHAP(make([]byte, 49), "alice")}.Marshal())
	}
	mutator.Run(t, mutator.Parser{Name: "ppp", Seeds: seeds, Format: mutator.PPP(), Seal: mutator.SealPPP, New: func(r *rand.Rand) mutator.Machine {
		d := newPair(t)
		d.start()
		aim := func(b []byte) { // the identifiers that an end waits for
			if len(b) > 5 && r.IntN(2) == 0 {
				l := d.server.link
				switch ppp.Protocol(binary.BigEndian.Uint16(b[2:])) {
				case ppp.LCP:
					b[5] = l.lcp.id
				case ppp.IPCP:
					b[5] = l.v4.id
				case ppp.IPV6CP:
					b[5] = l.v6.id
				}
			}
		}
		return mutator.Machine{Aim: aim, Receive: func(b []byte) {
			if d.server.link.Ended() || d.client.link.Ended() {
				n := newPair(t)
				n.now = d.now
				*d = *n
				d.client.pair, d.server.pair = d, d
				d.start()
			}
			protocol, rest, err := ppp.ParseFrame(b)
			if err != nil {
				return
			}
			e := d.server
			if r.IntN(3) == 0 {
				e = d.client
			}
			e.link.Receive(protocol, rest, d.now)
			d.settle()
			d.pass(time.Duration(r.IntN(500)) * time.Millisecond)
		}}
	}})
}
