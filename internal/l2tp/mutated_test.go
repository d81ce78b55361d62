package l2tp

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weft/internal/mutator"
	"weft/wire/l2tp"
)

// usual are the messages of a tunnel and a call, as LNS and as LAC, in their order.
func usual() (list [][]byte) {
	call := func(kind l2tp.MessageType) *l2tp.Message {
		return l2tp.New(kind).AddUint16(l2tp.AssignedSessionID, 7).AddUint32(l2tp.CallSerialNumber, 1)
	}
	for _, m := range []*l2tp.Message{
		sccrq(99).Option(l2tp.TieBreaker, make([]byte, 8)).Option(l2tp.Challenge, []byte("0123456789abcdef")),
		l2tp.New(l2tp.SCCRP).AddUint16(l2tp.ProtocolVersion, 0x0100).Add(l2tp.HostName, []byte("lns")).AddUint32(l2tp.FramingCapabilities, 3).AddUint16(l2tp.AssignedTunnelID, 98).AddUint16(l2tp.ReceiveWindowSize, 4),
		l2tp.New(l2tp.SCCCN), call(l2tp.ICRQ), call(l2tp.ICRP), call(l2tp.OCRQ),
		l2tp.New(l2tp.ICCN).AddUint32(l2tp.TxConnectSpeed, 1e6).AddUint32(l2tp.FramingType, 1).Option(l2tp.LastSentLCP, []byte{1, 4, 5, 180}).
			Option(l2tp.LastReceivedLCP, []byte{1, 4, 5, 180}).AddUint16(l2tp.ProxyAuthenType, 2).Add(l2tp.ProxyAuthenName, []byte("alice")).Add(l2tp.ProxyAuthenChallenge, []byte("abc")),
		l2tp.New(l2tp.Hello), l2tp.New(l2tp.WEN).Add(l2tp.CallErrors, make([]byte, 26)), l2tp.New(l2tp.SLI),
		l2tp.New(l2tp.CDN).AddResult(l2tp.Result{Code: l2tp.CallCarrierLost}).AddUint16(l2tp.AssignedSessionID, 7),
		l2tp.New(l2tp.StopCCN).AddResult(l2tp.Result{Code: l2tp.StopRequested}).AddUint16(l2tp.AssignedTunnelID, 99),
	} {
		list = append(list, l2tp.Control{Body: m.Marshal()}.Marshal())
	}
	return append(list, l2tp.AppendData(nil, 0, 0, []byte{0xff, 3, 0, 0x21, 0x45}), l2tp.Control{}.Marshal())
}

// TestMutatedL2TP sends an endpoint, which has tunnels of its own too, what peers send:
// strangers, and those whose numbers are right.
func TestMutatedL2TP(t *testing.T) {
	mutator.Run(t, mutator.Parser{Name: "l2tp", Seeds: usual(), Format: mutator.L2TP(), Seal: mutator.SealL2TP, New: func(r *rand.Rand) mutator.Machine {
		l := newLab(t)
		l.config = Config{Owner: l, HostName: "lns"}
		if r.IntN(2) == 0 {
			l.config.Secret = "between us"
		}
		e := l.endpoint
		return mutator.Machine{Aim: func(b []byte) { l.aim(r, b) }, Receive: func(b []byte) {
			from := peer()
			if r.IntN(8) == 0 {
				from = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(4))}), uint16(1701+r.IntN(3)))
			}
			if r.IntN(64) == 0 {
				e.Connect(here(), from, Config{Owner: l, HostName: "home"})
			}
			e.Receive(here(), from, b)
			l.clock.Tick(l.clock.Now().Add(time.Duration(r.IntN(1000)) * time.Millisecond))
			l.release()
		}}
	}})
}

// release is what the datapath does: it forgets what has ended.
func (l *lab) release() {
	var gone []uint16
	l.sessions = slices.DeleteFunc(l.sessions, func(s *Session) bool {
		if s.state == SessionGone {
			gone = append(gone, s.local)
		}
		return s.state == SessionGone
	})
	l.endpoint.Released(l.endpoint.TakeChanges().Gone, gone)
	l.sent, l.down, l.ended = l.sent[:0], l.down[:0], l.ended[:0]
}

// aim puts the right numbers into most of the messages.
func (l *lab) aim(r *rand.Rand, b []byte) {
	if len(b) < 12 || r.IntN(4) == 0 {
		return
	}
	tunnels := l.endpoint.Tunnels()
	if len(tunnels) == 0 {
		return
	}
	t := tunnels[r.IntN(len(tunnels))]
	if b[0]&0x80 == 0 {
		binary.BigEndian.PutUint16(b[2:], t.local)
		binary.BigEndian.PutUint16(b[4:], t.anySession())
		return
	}
	if kind := b[12:]; len(kind) >= 8 && kind[7] == byte(l2tp.SCCRQ) {
		return
	}
	binary.BigEndian.PutUint16(b[4:], t.local)
	if r.IntN(2) == 0 {
		binary.BigEndian.PutUint16(b[6:], t.anySession())
	}
	binary.BigEndian.PutUint16(b[8:], t.channel.nr)
	if r.IntN(8) > 0 {
		binary.BigEndian.PutUint16(b[10:], t.channel.ns)
	}
}

// anySession is the id of a session; zero if there is none.
func (t *Tunnel) anySession() (least uint16) {
	for id := range t.sessions {
		if least == 0 || id < least {
			least = id
		}
	}
	return least
}
