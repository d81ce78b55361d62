package l2tp

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"weft/wire/l2tp"
)

const testSecret = "between the two"

// asks has a peer ask for a tunnel (SCCRQ); it gives the one that this made, or nil.
func (l *lab) asks(from netip.AddrPort, m *l2tp.Message) *Tunnel {
	before := map[*Tunnel]bool{}
	for _, t := range l.endpoint.tunnels {
		before[t] = true
	}
	l.endpoint.Receive(here(), from, l2tp.Control{Body: m.Marshal()}.Marshal())
	for _, t := range l.endpoint.tunnels {
		if !before[t] {
			return t
		}
	}
	return nil
}

// confirms has a peer confirm a tunnel (SCCCN) with a secret.
func (l *lab) confirms(t *Tunnel, secret string) {
	m := l2tp.New(l2tp.SCCCN)
	if len(t.challenge) > 0 {
		m.Add(l2tp.ChallengeResponse, l2tp.Response(l2tp.SCCCN, []byte(secret), t.challenge))
	}
	l.endpoint.Receive(here(), t.peer, l2tp.Control{Tunnel: t.local, Ns: t.channel.nr, Nr: t.channel.ns, Body: m.Marshal()}.Marshal())
}

// RFC 2661 section 5.8: an SCCRQ proves nothing. Whatever number it brings, the tunnel that
// stands goes on until the new one's SCCCN is right (section 5.1).
func TestAForgedSCCRQEndsNoTunnel(t *testing.T) {
	for _, secret := range []string{"", testSecret} {
		l := newLab(t)
		l.config = Config{Owner: l, HostName: "lns", Secret: secret}
		old := l.asks(peer(), sccrq(99))
		l.confirms(old, secret)
		l.control(old, 0, l2tp.New(l2tp.ICRQ).AddUint16(l2tp.AssignedSessionID, 7).AddUint32(l2tp.CallSerialNumber, 1))
		l.control(old, l.sessions[0].local, l2tp.New(l2tp.ICCN).AddUint32(l2tp.TxConnectSpeed, 1e6).AddUint32(l2tp.FramingType, 1))
		stands := func(after string) {
			t.Helper()
			l.frames = 0
			l.endpoint.Receive(here(), peer(), l2tp.AppendData(nil, old.local, l.sessions[0].local, []byte{0xff, 3, 0, 0x21}))
			if old.state != TunnelUp || l.endpoint.tunnels[old.local] != old || len(l.ended) != 0 || l.frames != 1 {
				t.Fatalf("secret %q, after %s: the tunnel is %s, ended are %v", secret, after, old.state, l.ended)
			}
		}
		stands("its set-up")
		forged := l.asks(peer(), sccrq(99).Add(l2tp.VendorName, []byte("evil")))
		stands("another SCCRQ with its number")
		if forged == nil {
			t.Fatal("a peer that began again gets no tunnel")
		}
		l.asks(peer(), l2tp.New(l2tp.StopCCN).AddUint16(l2tp.AssignedTunnelID, 99).AddResult(l2tp.Result{Code: l2tp.StopRequested}))
		stands("a StopCCN to no tunnel")
		if secret != "" {
			wrong := l.asks(peer(), sccrq(99).Add(l2tp.VendorName, []byte("evil too")))
			l.confirms(wrong, "a guess")
			stands("an SCCCN with a wrong response")
			if wrong.state == TunnelUp {
				t.Error("a wrong response sets a tunnel up")
			}
		}
		// the peer itself began again
		l.clock.Tick(l.clock.Now().Add(time.Minute))
		began := l.asks(peer(), sccrq(99).Add(l2tp.VendorName, []byte("2nd boot")))
		l.confirms(began, secret)
		if began.state != TunnelUp || len(l.ended) != 1 || l.endpoint.tunnels[old.local] == old {
			t.Errorf("secret %q: the new tunnel is %s, ended are %v", secret, began.state, l.ended)
		}
		if c := l.endpoint.TakeChanges(); len(c.Gone) != 1 || c.Gone[0] != old.local || !c.Stored[began.local] || len(l.endpoint.byPeer) != 1 {
			t.Errorf("secret %q: changes are %+v, %d keys", secret, c, len(l.endpoint.byPeer))
		}
	}
}

// An answer from another port (section 8.1) that does not know the secret moves nothing.
func TestAForgedSCCRPDoesNotMoveAServer(t *testing.T) {
	l := newLab(t)
	tunnel, _ := l.endpoint.Connect(here(), peer(), Config{Owner: l, HostName: "home", Secret: testSecret})
	other := netip.AddrPortFrom(peer().Addr(), 40000)
	for _, m := range []*l2tp.Message{l2tp.New(l2tp.Hello), l2tp.New(l2tp.SCCCN)} {
		l.endpoint.Receive(here(), other, l2tp.Control{Tunnel: tunnel.local, Nr: 1, Body: m.Marshal()}.Marshal())
	}
	if tunnel.peer != peer() || tunnel.state != WaitReply {
		t.Errorf("its peer is %s, it is %s", tunnel.peer, tunnel.state)
	}
	answer := l2tp.New(l2tp.SCCRP).AddUint16(l2tp.ProtocolVersion, 0x0100).Add(l2tp.HostName, []byte("lns")).AddUint32(l2tp.FramingCapabilities, 3).
		AddUint16(l2tp.AssignedTunnelID, 5).Add(l2tp.ChallengeResponse, l2tp.Response(l2tp.SCCRP, []byte(testSecret), tunnel.challenge))
	l.endpoint.Receive(here(), other, l2tp.Control{Tunnel: tunnel.local, Nr: 1, Body: answer.Marshal()}.Marshal())
	if tunnel.peer != other || tunnel.state != TunnelUp {
		t.Errorf("after a right answer from another port its peer is %s, it is %s", tunnel.peer, tunnel.state)
	}
}

func floodPeer(i int) netip.AddrPort {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 198<<24|18<<16|uint32(i%250))
	return netip.AddrPortFrom(netip.AddrFrom4(a), uint16(1024+i/250))
}

// Tunnels that are not confirmed are bounded, in all and for one address, and new peers
// get in all the same.
func TestAFloodOfSCCRQsKeepsNoPeerOut(t *testing.T) {
	l := newLab(t)
	l.config = Config{Owner: l, HostName: "lns", Secret: testSecret}
	e := l.endpoint
	standing := l.asks(peer(), sccrq(99))
	l.confirms(standing, testSecret)
	e.TakeChanges()
	flood := func(n int, from func(int) netip.AddrPort) {
		for i := range n {
			l.sent = nil
			e.Receive(here(), from(i), l2tp.Control{Body: sccrq(uint16(i%65535 + 1)).Marshal()}.Marshal())
		}
	}
	begin := time.Now()
	flood(20_000, floodPeer)
	if spent := time.Since(begin); spent > 20*time.Second {
		t.Errorf("20,000 took %s", spent)
	}
	if n := len(e.tunnels); n != unprovenMost+1 || e.unproven.count != unprovenMost {
		t.Errorf("%d tunnels, %d are not confirmed", n, e.unproven.count)
	}
	// a new peer has its time to answer, in the middle of it
	fresh := l.asks(netip.MustParseAddrPort("203.0.113.9:1701"), sccrq(1))
	flood(5_000, floodPeer)
	l.confirms(fresh, testSecret)
	if fresh.state != TunnelUp || standing.state != TunnelUp {
		t.Errorf("the new peer's tunnel is %s, the old one %s", fresh.state, standing.state)
	}
	// one address alone is bounded too
	flood(1000, func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr("203.0.113.66"), uint16(1024+i))
	})
	if p := e.unproven.peers[netip.MustParseAddr("203.0.113.66")]; p == nil || len(p.tunnels) > unprovenPeerMost {
		t.Errorf("one address has %+v", p)
	}
	if c := e.TakeChanges(); len(c.Gone) != 0 {
		t.Errorf("%d tunnels that never stood are to leave the datapath", len(c.Gone))
	}
	for range 4 {
		l.clock.Tick(l.clock.Now().Add(handshakeTime))
	}
	if n := e.unproven.count + len(e.unproven.peers); n != 0 {
		t.Errorf("%d are left when their time is over", n)
	}
	for i := range e.unproven.levels {
		if n := e.unproven.levels[i].Len(); n != 0 {
			t.Errorf("%d peers are left on level %d", n, i)
		}
	}
}

// The time for one SCCRQ does not grow with the tunnels that there are.
func TestTiesAreLookedForAmongTheTunnelsToThePeerOnly(t *testing.T) {
	fastest := func(tunnels int) time.Duration {
		l := newLab(t)
		l.config = Config{Owner: l, HostName: "lns"}
		for i := range tunnels {
			l.endpoint.Connect(here(), floodPeer(i%200), Config{Owner: l, HostName: "home"})
		}
		best := time.Hour
		for id := range uint16(50) {
			m := l2tp.Control{Body: sccrq(id+1).Option(l2tp.TieBreaker, make([]byte, 8)).Marshal()}.Marshal()
			begin := time.Now()
			l.endpoint.Receive(here(), peer(), m)
			best = min(best, time.Since(begin))
		}
		return best
	}
	few, many := fastest(5), fastest(5000)
	if many > 10*few+100*time.Microsecond {
		t.Errorf("%s with 5 tunnels, %s with 5000", few, many)
	}
}

// Who only sends SCCRQs has little more sent to the address it shows than it sends.
func TestAnswersToThoseWhoProveNothingDoNotAmplify(t *testing.T) {
	l := newLab(t)
	l.config = Config{Owner: l, HostName: "lns", Secret: testSecret}
	request := l2tp.Control{Body: sccrq(99).Marshal()}.Marshal()
	sent := func() (n int) {
		for _, b := range l.sent {
			n += len(b)
		}
		l.sent = nil
		return n
	}
	l.endpoint.Receive(here(), peer(), request)
	for range 60 {
		l.clock.Tick(l.clock.Now().Add(time.Second))
	}
	if n := sent(); n == 0 || n > 4*len(request) {
		t.Errorf("%d bytes are sent for one of %d", n, len(request))
	}
	l.config = Config{} // a stranger
	for range 1000 {
		l.endpoint.Receive(here(), peer(), request)
	}
	if n := len(l.sent); n == 0 || n > int(refusals.Burst) {
		t.Errorf("a thousand strangers get %d answers", n)
	}
	if sent(); l.endpoint.Stats().Refused != 1000 {
		t.Errorf("%d are counted", l.endpoint.Stats().Refused)
	}
	l.clock.Tick(l.clock.Now().Add(time.Second))
	if l.endpoint.Receive(here(), peer(), request); len(l.sent) != 1 {
		t.Error("a second later a stranger gets no answer")
	}
}

// A peer that lost the SCCRP repeats its SCCRQ, and has the SCCRP again.
func TestARepeatedSCCRQHasItsAnswerAgain(t *testing.T) {
	l := newLab(t)
	l.config = Config{Owner: l, HostName: "lns"}
	request := l2tp.Control{Body: sccrq(99).Marshal()}.Marshal()
	for i := range 5 {
		l.sent = nil
		l.endpoint.Receive(here(), peer(), request)
		if len(l.sent) != 1 {
			t.Fatalf("SCCRQ %d has %d answers", i, len(l.sent))
		}
		_, body, err := l2tp.Parse(l.sent[0])
		if kind, _, e := l2tp.Peek(body); err != nil || e != nil || kind != l2tp.SCCRP {
			t.Errorf("SCCRQ %d is answered by %v", i, kind)
		}
		l.clock.Tick(l.clock.Now().Add(4 * time.Second))
	}
	if len(l.endpoint.tunnels) != 1 {
		t.Errorf("there are %d tunnels", len(l.endpoint.tunnels))
	}
}

// A peer that asks and asks, and acknowledges nothing, does not fill the memory; when it
// acknowledges, it is served.
func TestRepliesThatWaitAreBounded(t *testing.T) {
	l := newLab(t)
	tunnel, _ := l.accepted()
	for i := range 3 * waitingMost {
		m := l2tp.New(l2tp.OCRQ).AddUint16(l2tp.AssignedSessionID, uint16(i+100)).AddUint32(l2tp.CallSerialNumber, 1)
		l.endpoint.Receive(here(), peer(), l2tp.Control{Tunnel: tunnel.local, Ns: tunnel.channel.nr, Nr: 1, Body: m.Marshal()}.Marshal())
	}
	if n := len(tunnel.channel.waiting); n > waitingMost || n < waitingMost/2 {
		t.Errorf("%d wait", n)
	}
	for len(tunnel.channel.waiting) > 0 {
		l.endpoint.Receive(here(), peer(), l2tp.Control{Tunnel: tunnel.local, Ns: tunnel.channel.nr, Nr: tunnel.channel.ns}.Marshal())
	}
	before := len(l.sessions)
	l.control(tunnel, 0, l2tp.New(l2tp.ICRQ).AddUint16(l2tp.AssignedSessionID, 8).AddUint32(l2tp.CallSerialNumber, 2))
	if len(l.sessions) != before+1 || tunnel.state != TunnelUp {
		t.Errorf("%d sessions, the tunnel is %s", len(l.sessions), tunnel.state)
	}
}
