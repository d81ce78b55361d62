package access

import (
	"testing"
	"time"

	"weft/wire/l2tp"
)

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
		d := newDuetAt(t, "198.51.100.7:1701", "192.0.2.1:1701")
		d.lose = func(*side, []byte) bool { return true }
		d.start(testServer(), testClient())
		e := d.client.engine
		var tunnel *tunnel
		for _, tunnel = range e.tunnels {
		}
		if tunnel == nil || tunnel.state != tunnelWaitReply || len(tunnel.tie) != 8 {
			t.Fatalf("%s: no tunnel is asked for", c.name)
		}
		tunnel.tie[0] = 0x55
		// the client is a server too
		both := testServer()
		both.Listen[0], both.LACs[0].Secret = d.client.addr, ""
		both.LACs[0].Address, _ = d.server.addr.Addr().Prefix(24)
		e.Set([]ServerSettings{both}, []ClientSettings{testClient()}, d.now)
		m := l2tp.New(l2tp.SCCRQ).AddUint16(l2tp.ProtocolVersion, 0x0100).Add(l2tp.HostName, []byte("lns")).
			AddUint32(l2tp.FramingCapabilities, 3).AddUint16(l2tp.AssignedTunnelID, 99)
		if c.theirs != nil {
			m.Option(l2tp.TieBreaker, c.theirs(append([]byte{}, tunnel.tie...)))
		}
		e.Receive(d.client.addr, d.server.addr, l2tp.Control{Body: m.Marshal()}.Marshal(), d.now)
		theirs := 0
		for _, x := range e.tunnels {
			if x.server != nil {
				theirs++
			}
		}
		if (theirs == 1) != c.theirsGo || (e.tunnels[tunnel.local] == tunnel) != c.ours {
			t.Errorf("%s: theirs goes on %v, ours %v", c.name, theirs == 1, e.tunnels[tunnel.local] == tunnel)
		}
		if !c.ours && !e.clients["home"].retryAt.After(d.now.Add(-time.Second)) {
			t.Errorf("%s: the client does not try again", c.name)
		}
	}
}
