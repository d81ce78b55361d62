package aaa

import (
	"crypto/md5" //nolint:gosec // RFC 2865 section 3
	"math/rand/v2"
	"net"
	"testing"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2868"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/vendors/wispr"

	"weft/internal/mutator"
)

const secret = "with RADIUS"

func encoded(t *testing.T, p *radius.Packet) []byte {
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMutatedRADIUSOrders is what servers that know the secret order.
func TestMutatedRADIUSOrders(t *testing.T) {
	var seeds [][]byte
	for _, code := range []radius.Code{radius.CodeDisconnectRequest, radius.CodeCoARequest} {
		p := packet(code, secret, func(p *radius.Packet) {
			alice(p)
			_ = rfc2865.FramedIPAddress_Set(p, net.IPv4(192, 0, 2, 77))
			_ = wispr.WISPrBandwidthMaxUp_Set(p, 5e6)
			_ = rfc2865.ProxyState_Add(p, []byte("x"))
			_ = rfc2865.NASIPAddress_Set(p, net.IPv4(192, 0, 2, 1))
		})
		seeds = append(seeds, encoded(t, p), encoded(t, signedOrder(t, p)))
	}
	mutator.Run(t, mutator.Parser{Name: "radius-orders", Seeds: seeds, Format: mutator.RADIUS(), Seal: mutator.SealRADIUS, Most: radius.MaxPacketLength, New: func(r *rand.Rand) mutator.Machine {
		d, before := &desk{}, &answered{}
		return mutator.Machine{Receive: func(b []byte) {
			// the library checks the authenticator of a request, which who knows the secret has right
			p, err := radius.Parse(b, []byte(secret))
			if err != nil {
				return
			}
			from := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 1024 + r.IntN(4096)}
			handle(&paper{}, &radius.Request{LocalAddr: &net.UDPAddr{}, RemoteAddr: from, Packet: p}, lns(), d, r.IntN(2) == 0, before)
			d.changes = nil
		}}
	}})
}

// TestMutatedRADIUSAnswers is what servers answer, and who pretends to be one.
func TestMutatedRADIUSAnswers(t *testing.T) {
	q := question(Credentials{Login: "alice", Method: MethodMSCHAPv2, Challenge: make([]byte, 16), Response: make([]byte, 49)})
	asked := radius.New(radius.CodeAccessRequest, []byte(secret))
	wire := encoded(t, asked)
	var seeds [][]byte
	for _, code := range []radius.Code{radius.CodeAccessAccept, radius.CodeAccessReject, radius.CodeAccessChallenge, radius.CodeAccountingResponse} {
		p := asked.Response(code)
		profile(p)
		_ = rfc2868.TunnelType_Set(p, 1, rfc2868.TunnelType_Value_L2TP)
		_ = rfc2868.TunnelServerEndpoint_SetString(p, 1, "192.0.2.99")
		_ = rfc2868.TunnelPassword_SetString(p, 1, "between us")
		_ = rfc2865.ReplyMessage_SetString(p, "welcome")
		p.Add(rfc2869.MessageAuthenticator_Type, make([]byte, 16))
		seeds = append(seeds, encoded(t, p))
	}
	mutator.Run(t, mutator.Parser{Name: "radius-answers", Seeds: seeds, Format: mutator.RADIUS(), Seal: mutator.SealRADIUS, Most: radius.MaxPacketLength, New: func(r *rand.Rand) mutator.Machine {
		l := &line{}
		aim := func(b []byte) { // who knows the secret signs it
			if len(b) >= 20 && r.IntN(8) > 0 {
				b[1] = wire[1]
				sum := md5.New()
				sum.Write(b[:4])
				sum.Write(wire[4:20])
				sum.Write(b[20:])
				sum.Write([]byte(secret))
				copy(b[4:20], sum.Sum(nil))
			}
		}
		return mutator.Machine{Aim: aim, Receive: func(b []byte) {
			if len(b) < 20 {
				return
			}
			one := &query{wire: wire, secret: []byte(secret), answer: make(chan *radius.Packet, 1), failed: make(chan error, 1)}
			l.waiting[wire[1]] = one
			l.receive(b)
			select {
			case p := <-one.answer:
				_ = signed(p, asked, true)
				_, _ = replyOf(p, asked, q)
			default:
			}
		}}
	}})
}
