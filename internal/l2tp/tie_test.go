package l2tp

import (
	"net/netip"
	"testing"
	"time"

	"weft/internal/timer"
	"weft/wire/l2tp"
)

// lab is an endpoint alone: what it sends is noted, and its peers are those of a test.
type lab struct {
	t        *testing.T
	clock    timer.Queue
	endpoint *Endpoint
	sent     [][]byte
	config   Config // for who asks for a tunnel
	down     []string
	sessions []*Session
	frames   int
	ended    []Reason
}

func (l *lab) Send(_, _ netip.AddrPort, b []byte) { l.sent = append(l.sent, b) }

func (l *lab) Authorize(netip.AddrPort, netip.Addr, string) (Config, bool) {
	return l.config, l.config.Owner != nil
}

func (l *lab) TunnelEvent(_ *Tunnel, e Event) {
	if d, ok := e.(Down); ok {
		l.down = append(l.down, d.Text)
	}
}

func (l *lab) Call(t *Tunnel, _ *l2tp.Message) (*Session, *l2tp.Result) {
	s := t.NewSession(l)
	l.sessions = append(l.sessions, s)
	return s, nil
}

func (l *lab) Frame([]byte)                      { l.frames++ }
func (l *lab) SessionEvent(Event)                {}
func (l *lab) SessionEnded(why Reason, _ string) { l.ended = append(l.ended, why) }

func here() netip.AddrPort { return netip.MustParseAddrPort("198.51.100.7:1701") }
func peer() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.1:1701") }

func newLab(t *testing.T) *lab {
	l := &lab{t: t}
	l.clock.Set(time.Unix(1_000_000, 0))
	n := byte(0)
	l.endpoint = New(l, &l.clock, func(b []byte) {
		for i := range b {
			n++
			b[i] = n
		}
	})
	return l
}

func sccrq(id uint16) *l2tp.Message {
	return l2tp.New(l2tp.SCCRQ).AddUint16(l2tp.ProtocolVersion, 0x0100).Add(l2tp.HostName, []byte("lns")).
		AddUint32(l2tp.FramingCapabilities, 3).AddUint16(l2tp.AssignedTunnelID, id)
}

// Both ask the other for a tunnel at the same time (RFC 2661 section 4.4.3).
func TestTiesAreBroken(t *testing.T) {
	for _, c := range []struct {
		name           string
		theirs         func(ours []byte) []byte // nil: none
		theirsGo, ours bool
	}{
		{"ours is lower", func(o []byte) []byte { o[0]++; return o }, false, true},
		{"theirs is lower", func(o []byte) []byte { o[0]--; return o }, true, false},
		{"they are the same", func(o []byte) []byte { return o }, false, false},
		{"they sent none", nil, false, true},
	} {
		l := newLab(t)
		e := l.endpoint
		tunnel, ok := e.Connect(here(), peer(), Config{Owner: l, HostName: "home"})
		if !ok || tunnel.state != WaitReply || len(tunnel.tie) != 8 {
			t.Fatalf("%s: no tunnel is asked for", c.name)
		}
		l.config = Config{Owner: l, HostName: "home"} // it takes tunnels, too
		tunnel.tie[0] = 0x55
		m := sccrq(99)
		if c.theirs != nil {
			m.Option(l2tp.TieBreaker, c.theirs(append([]byte{}, tunnel.tie...)))
		}
		e.Receive(here(), peer(), l2tp.Control{Body: m.Marshal()}.Marshal())
		for _, x := range e.Tunnels() { // theirs is confirmed: only then it ends ours
			if !x.initiator {
				if e.Tunnel(tunnel.local) != tunnel {
					t.Errorf("%s: ours is ended by a message that proves nothing", c.name)
				}
				l.control(x, 0, l2tp.New(l2tp.SCCCN))
			}
		}
		theirs := 0
		for _, x := range e.Tunnels() {
			if !x.initiator {
				theirs++
			}
		}
		if (theirs == 1) != c.theirsGo || (e.Tunnel(tunnel.local) == tunnel) != c.ours {
			t.Errorf("%s: theirs goes on %v, ours %v", c.name, theirs == 1, e.Tunnel(tunnel.local) == tunnel)
		}
		if !c.ours != (len(l.down) == 1) {
			t.Errorf("%s: its owner gets %q", c.name, l.down)
		}
	}
}
