package subscriber

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"

	"weft/internal/l2tp"
	wirel2tp "weft/wire/l2tp"
)

// sentMessage is a control message that a side has sent, with the tunnel and session id of the
// peer.
type sentMessage struct {
	header  wirel2tp.Header
	message *wirel2tp.Message // nil: an acknowledgement
}

func (d *peerPair) receiveControl(t *testing.T, from **side) *[]sentMessage {
	t.Helper()
	var list []sentMessage
	d.lose = func(s *side, b []byte) bool {
		h, body, err := wirel2tp.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if s != *from || !h.Control {
			return false
		}
		one := sentMessage{header: h}
		if len(body) > 0 {
			if one.message, err = wirel2tp.ParseMessage(append([]byte{}, body...), []byte("between us")); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, one)
		return false
	}
	return &list
}

// One call that the server does not understand does not end those of others
// (RFC 2661 section 4.1: an AVP of a message about a session ends the session).
func TestACallThatIsNotUnderstoodIsTheOnlyOneThatEnds(t *testing.T) {
	for name, strange := range map[string]wirel2tp.AVP{
		"a vendor's mandatory attribute": {Mandatory: true, Vendor: 9, Attribute: 1, Value: []byte{1}},
		"a speed of three bytes":         {Mandatory: true, Attribute: wirel2tp.MinimumBPS, Value: []byte{1, 2, 3}},
	} {
		for _, kind := range []wirel2tp.MessageType{wirel2tp.ICRQ, wirel2tp.OCRQ} {
			d := newPeerPair(t)
			d.start(testServer(), testClient())
			l := d.up()
			received := d.receiveControl(t, &d.server)
			tunnel := d.client.only().tunnel
			m := wirel2tp.New(kind)
			m.AVPs = append(m.AVPs, strange)
			d.inject(d.client, tunnel, 0, m.AddUint16(wirel2tp.AssignedSessionID, 4711).AddUint32(wirel2tp.CallSerialNumber, 9))
			d.settle()
			if got := d.client.engine.Learned()["home"]; !got.Equal(l) {
				t.Errorf("%s in %s: the session that was there is now %+v", name, kind, got)
			}
			refused := false
			for _, one := range *received {
				refused = refused || one.message != nil && one.message.Type == wirel2tp.CDN && one.header.Session == 4711 && one.message.Result().Code == wirel2tp.CallError
			}
			if !refused {
				t.Errorf("%s in %s: the call is not refused: %+v", name, kind, *received)
			}
		}
	}
}

// What need not be understood is passed over, however it looks (section 7.1).
func TestAnOptionalAttributeThatMakesNoSenseIsPassedOver(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	tunnel := d.client.only().tunnel
	m := wirel2tp.New(wirel2tp.ICRQ).AddUint16(wirel2tp.AssignedSessionID, 4711).AddUint32(wirel2tp.CallSerialNumber, 9)
	m.Option(wirel2tp.PhysicalChannelID, []byte{1})
	d.inject(d.client, tunnel, 0, m)
	d.settle()
	if n := len(d.server.engine.sessions); n != 2 {
		t.Errorf("there are %d sessions, want the call as well", n)
	}
}

// A peer that gives up before it knows our numbers says its own (section 4.4.3).
func TestWhoGivesUpEarlyIsUnderstood(t *testing.T) {
	d := newPeerPair(t)
	d.server.engine.Set([]ServerSettings{testServer()}, nil, d.now)
	from := netip.MustParseAddrPort("198.51.100.8:1701")
	send := func(h wirel2tp.Control) { d.server.engine.Receive(d.server.addr, from, h.Marshal(), d.now) }
	first := wirel2tp.New(wirel2tp.SCCRQ).AddUint16(wirel2tp.ProtocolVersion, 0x0100).Add(wirel2tp.HostName, []byte("lac")).
		AddUint32(wirel2tp.FramingCapabilities, 3).AddUint16(wirel2tp.AssignedTunnelID, 99)
	send(wirel2tp.Control{Body: first.Marshal()})
	rows := d.server.engine.Tunnels()
	if len(rows) != 1 || rows[0].State != "wait-connect" {
		t.Fatalf("tunnels are %+v", rows)
	}
	stop := wirel2tp.New(wirel2tp.StopCCN).AddUint16(wirel2tp.AssignedTunnelID, 98).AddResult(wirel2tp.Result{Code: wirel2tp.StopRequested})
	send(wirel2tp.Control{Ns: 1, Body: stop.Marshal()})
	if got := d.server.engine.Tunnels()[0].State; got != "wait-connect" {
		t.Errorf("the end of another tunnel makes it %s", got)
	}
	stop = wirel2tp.New(wirel2tp.StopCCN).AddUint16(wirel2tp.AssignedTunnelID, 99).AddResult(wirel2tp.Result{Code: wirel2tp.StopRequested})
	send(wirel2tp.Control{Ns: 1, Body: stop.Marshal()})
	if got := d.server.engine.Tunnels()[0].State; got != "closing" {
		t.Errorf("the tunnel that was given up is %s", got)
	}

	// a call, in the same way
	d = newPeerPair(t)
	d.start(testServer(), testClient())
	l := d.up()
	tunnel := d.client.only().tunnel
	d.inject(d.client, tunnel, 0, wirel2tp.New(wirel2tp.ICRQ).AddUint16(wirel2tp.AssignedSessionID, 4711).AddUint32(wirel2tp.CallSerialNumber, 9))
	d.inject(d.client, tunnel, 0, wirel2tp.New(wirel2tp.CDN).AddUint16(wirel2tp.AssignedSessionID, 4711).AddResult(wirel2tp.Result{Code: wirel2tp.CallAdministrative}))
	d.settle()
	if n := len(d.server.engine.sessions); n != 1 || !d.client.engine.Learned()["home"].Equal(l) {
		t.Errorf("there are %d sessions, want the first one alone", n)
	}
}

// A LAC that uses the number of a call for another one has forgotten the first:
// what is for one subscriber never goes to another.
func TestALACUsesANumberAgain(t *testing.T) {
	for _, restart := range []bool{false, true} {
		d := newPeerPair(t)
		d.start(testServer(), testClient())
		d.up()
		old := d.server.only().local
		number, tunnel := d.client.only().local, d.client.only().tunnel
		if restart {
			next := newSide(d, d.server.addr.String(), 99)
			var kept []Stored
			for k, v := range d.server.store {
				kept = append(kept, Stored{k, v})
			}
			slices.SortFunc(kept, func(a, b Stored) int { return -cmp.Compare(a.Key, b.Key) }) // tunnels first
			next.other, d.client.other, d.server = d.client, next, next
			next.engine.Set([]ServerSettings{testServer()}, nil, d.now)
			if err := next.engine.Restore(kept, d.now); err != nil {
				t.Fatal(err)
			}
			d.settle()
		}
		received := d.receiveControl(t, &d.server)
		listen := d.lose
		d.lose = func(s *side, b []byte) bool { return listen(s, b) || s == d.server } // this LAC still has its call
		d.inject(d.client, tunnel, 0, wirel2tp.New(wirel2tp.ICRQ).AddUint16(wirel2tp.AssignedSessionID, number).AddUint32(wirel2tp.CallSerialNumber, 9))
		d.settle()
		for _, one := range *received {
			if one.message != nil && one.message.Type == wirel2tp.CDN {
				t.Errorf("the LAC gets a CDN, which ends its new call: %+v", one)
			}
		}
		_, ended := d.server.engine.Details(Match{Login: "alice"})
		if len(ended) != 1 || ended[0].Session != old || ended[0].Reason != ReasonLost || d.server.engine.sessions[old] != nil {
			t.Errorf("restart %v: what ended is %+v", restart, ended)
		}
		if _, there := d.server.sessions[old]; there {
			t.Errorf("restart %v: the programs still have it", restart)
		}
		for _, s := range d.server.engine.sessions {
			if s.l2tp.State() != l2tp.SessionWaitConnect {
				t.Errorf("restart %v: a session is %+v", restart, s.row())
			}
		}
	}
}

// A refusal is acknowledged to the tunnel that it names: else it comes again.
func TestARefusalIsAcknowledged(t *testing.T) {
	d := newPeerPair(t)
	d.lose = func(*side, []byte) bool { return true }
	d.client.engine.Set(nil, []ClientSettings{testClient()}, d.now)
	d.settle()
	var local uint16
	for _, t := range d.client.engine.tunnels() {
		local = t.Local()
	}
	received := d.receiveControl(t, &d.client)
	stop := wirel2tp.New(wirel2tp.StopCCN).AddUint16(wirel2tp.AssignedTunnelID, 77).AddResult(wirel2tp.Result{Code: wirel2tp.StopUnauthorized, Text: "who are you?"})
	d.client.engine.Receive(d.client.addr, d.server.addr, wirel2tp.Control{Tunnel: local, Nr: 1, Body: stop.Marshal()}.Marshal(), d.now)
	d.settle()
	if len(*received) != 1 || (*received)[0].message != nil || (*received)[0].header.Tunnel != 77 || (*received)[0].header.Nr != 1 {
		t.Errorf("the answer is %+v", *received)
	}
	if why := d.client.engine.Clients()[0].Fault; why != "the server ended the tunnel: result 4 (not authorized): who are you?" {
		t.Errorf("the client says %q", why)
	}
}

// Outgoing calls (RFC 2661 section 7.5): a LAC and a server that cannot dial reject them
// with a CDN that names the call, from any peer; all other sessions continue.
func TestOutgoingCallsAreRefused(t *testing.T) {
	for _, asker := range []string{"LAC", "server"} {
		d := newPeerPair(t)
		d.start(testServer(), testClient())
		l := d.up()
		from, to := &d.client, &d.server
		if asker == "server" {
			from, to = to, from
		}
		received := d.receiveControl(t, to)
		tunnel := (*from).only().tunnel
		d.inject(*from, tunnel, 0, wirel2tp.New(wirel2tp.OCRQ).AddUint16(wirel2tp.AssignedSessionID, 4711).AddUint32(wirel2tp.CallSerialNumber, 9).AddUint32(wirel2tp.MinimumBPS, 64000).
			AddUint32(wirel2tp.MaximumBPS, 64000).AddUint32(wirel2tp.BearerType, 1).AddUint32(wirel2tp.FramingType, 1).Add(wirel2tp.CalledNumber, []byte("5551234")))
		d.settle()
		var cdn []sentMessage
		for _, one := range *received {
			if one.message != nil && one.message.Type == wirel2tp.CDN {
				cdn = append(cdn, one)
			}
		}
		if len(cdn) != 1 || cdn[0].header.Session != 4711 || cdn[0].message.Result().Code != wirel2tp.CallNever {
			t.Errorf("the %s asks: the answer is %+v", asker, *received)
		}
		if got := d.client.engine.Learned()["home"]; !got.Equal(l) || len(d.server.engine.sessions) != 1 || len(d.client.engine.sessions) != 1 {
			t.Errorf("the %s asks: the session that was there is now %+v", asker, got)
		}
	}
}

// Replies to an outgoing call that was never requested end the call that they name
// (section 7.2.1: a message out of order), and have no effect if they name none. Line
// information of an unknown call is ignored.
func TestWhatIsAboutNoCallDoesNoHarm(t *testing.T) {
	for _, kind := range []wirel2tp.MessageType{wirel2tp.OCRP, wirel2tp.OCCN, wirel2tp.WEN, wirel2tp.SLI, wirel2tp.ICRP, wirel2tp.ICCN} {
		for _, number := range []uint16{0, 4711} {
			d := newPeerPair(t)
			d.start(testServer(), testClient())
			l := d.up()
			tunnel := d.client.only().tunnel
			d.inject(d.client, tunnel, number, wirel2tp.New(kind).AddUint16(wirel2tp.AssignedSessionID, 4711).Add(wirel2tp.CallErrors, make([]byte, 26)).Add(wirel2tp.ACCM, make([]byte, 10)).
				AddUint32(wirel2tp.TxConnectSpeed, 1).AddUint32(wirel2tp.FramingType, 1))
			d.settle()
			if got := d.client.engine.Learned()["home"]; !got.Equal(l) || len(d.server.engine.Tunnels()) != 1 {
				t.Errorf("%s for session %d: the session that was there is now %+v", kind, number, got)
			}
		}
		d := newPeerPair(t)
		d.start(testServer(), testClient())
		d.up()
		mine := d.client.only()
		d.inject(d.client, mine.tunnel, mine.l2tp.Remote(), wirel2tp.New(kind).Add(wirel2tp.CallErrors, make([]byte, 26)).Add(wirel2tp.ACCM, make([]byte, 10)))
		ended := func() bool { _, list := d.server.engine.Details(Match{Login: "alice"}); return len(list) > 0 }
		d.settle()
		if want := kind != wirel2tp.WEN && kind != wirel2tp.SLI; ended() != want {
			t.Errorf("%s about a call that stands: it is over: %v", kind, !want)
		}
	}
}

// Why a LAC ends a call is said in words, with what the telephone network said.
func TestTheEndOfACallIsSaidInWords(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	d.up()
	mine := d.client.only()
	d.inject(d.client, mine.tunnel, mine.l2tp.Remote(), wirel2tp.New(wirel2tp.CDN).AddResult(wirel2tp.Result{Code: wirel2tp.CallCarrierLost, Text: "DSL is down"}).AddUint16(wirel2tp.AssignedSessionID, mine.local).
		Add(wirel2tp.CauseCode, append([]byte{0, 16, 7}, "cleared"...)))
	d.settle()
	_, ended := d.server.engine.Details(Match{Login: "alice"})
	if want := "the peer ended the call: result 1 (loss of carrier): DSL is down; Q.931 cause 16: cleared"; len(ended) != 1 || ended[0].Text != want {
		t.Errorf("it says %+v, want %q", ended, want)
	}
}
