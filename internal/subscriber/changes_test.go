package subscriber

import (
	"net/netip"
	"testing"
	"time"

	"weft/internal/ppp"
	"weft/internal/state"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// aDelta feeds one waiting datagram to the server, and gives the session delta for its
// datapath, which must be applied before the server's messages are sent.
func (d *peerPair) aDelta() (t SessionDelta, said []datagram) {
	d.t.Helper()
	s := d.server
	m := s.inbox[0]
	s.inbox = s.inbox[1:]
	before := len(d.client.inbox)
	s.engine.Receive(m.here, m.from, m.b, d.now)
	return s.engine.SessionDelta(), d.client.inbox[before:]
}

// The datapath gets a session with the message by which the subscriber knows that it is up.
func TestTheDatapathIsToldWithTheLastAnswer(t *testing.T) {
	d := newPeerPair(t)
	d.server.engine.Set([]ServerSettings{testServer()}, nil, d.now)
	d.client.engine.Set(nil, []ClientSettings{testClient()}, d.now)
	notified, up := map[uint16]state.L2TPSession{}, false
	for range 1000 {
		d.client.engine.Tick(d.now)
		d.server.engine.Tick(d.now)
		for range d.client.dials {
			d.client.engine.Dialed("home", d.client.addr, d.server.addr, d.now)
		}
		d.client.dials = nil
		for len(d.server.inbox) > 0 {
			delta, _ := d.aDelta()
			for _, one := range delta.Sessions {
				notified[one.Local] = one
			}
		}
		for len(d.client.inbox) > 0 && !up {
			m := d.client.inbox[0]
			d.client.inbox = d.client.inbox[1:]
			d.client.engine.Receive(m.here, m.from, m.b, d.now)
			l := d.client.engine.Learned()["home"]
			up = l.IPv4.IsValid()
			if up && len(notified) == 0 {
				t.Fatalf("the client has %s, and the datapath has no session", l.IPv4)
			}
			for _, one := range notified {
				if up && one.IPv4 != l.IPv4 {
					t.Fatalf("the client has %s, and the datapath has %+v", l.IPv4, one)
				}
			}
		}
		if up {
			return
		}
	}
	t.Fatal("the client never comes up")
}

// Both protocols come up, IPv6 first. The subscriber's IPv4 is up there as soon as it
// has had our last answer and given its own: it may send right behind that, and the
// programs, which know the session, must let it pass.
func TestWhatFollowsTheLastAnswerOfTheSecondProtocolPasses(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	var s *session
	for _, s = range d.server.engine.sessions {
	}
	if s == nil || s.link.IPV6CP() != ppp.StateOpened || !s.online {
		t.Fatal("there is no session")
	}
	// the subscriber renegotiates IPCP: our answer, then its own
	s.engine.SessionDelta()
	request := wireppp.Packet{Code: wireppp.ConfigureRequest, ID: 77, Data: wireppp.MarshalOptions([]wireppp.Option{{Type: wireppp.OptAddress, Data: s.given.IPv4.AsSlice()}})}
	s.link.Receive(wireppp.IPCP, request.Marshal(), d.now)
	if s.link.IPCP() != ppp.StateAckSent {
		t.Fatalf("IPCP is %v", s.link.IPCP())
	}
	delta := s.engine.SessionDelta()
	if len(delta.Sessions) != 1 || delta.Sessions[0].IPv4 != s.given.IPv4 || delta.Sessions[0].Blocked {
		t.Errorf("IPCP is open, and the datapath gets %+v", delta.Sessions)
	}
	// without authentication the session has no addresses
	s.online = false
	if a := s.asState(); a.IPv4 != (netip.Addr{}) {
		t.Errorf("no account has begun, and %v may send", a.IPv4)
	}
}

// A session that has ended is in the next delta, and again in the change set that removes it.
func TestWhatHasEndedIsToldUntilItIsRemoved(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	e := d.server.engine
	var id, of uint16
	for id = range e.sessions {
		of = e.sessions[id].tunnel.Local()
	}
	e.Kick(Match{Login: "alice"}, d.now)
	if delta := e.SessionDelta(); len(delta.Ended) != 1 || delta.Ended[0] != id {
		t.Errorf("it ended %v, and %d was expected", delta.Ended, id)
	}
	if delta := e.SessionDelta(); !delta.Empty() {
		t.Errorf("it is given again: %+v", delta)
	}
	e.closeTunnels(func(*tunnel) bool { return true }, wirel2tp.Result{Code: wirel2tp.StopShutDown})
	d.now = d.now.Add(time.Minute)
	e.Tick(d.now)
	b := e.Take()
	if len(b.GoneSessions) != 1 || b.GoneSessions[0] != id || len(b.GoneTunnels) != 1 || b.GoneTunnels[0] != of {
		t.Fatalf("the batch has %v and %v gone", b.GoneSessions, b.GoneTunnels)
	}
}
