package access

import (
	"encoding/binary"
	"testing"

	"weft/wire/l2tp"
	"weft/wire/ppp"
)

// characters asks for an ACCM besides what else a link asks for.
type characters struct {
	options
	accm uint32
}

func (c characters) request() []ppp.Option {
	return append(c.options.request(), ppp.Option{Type: ppp.OptACCM, Data: binary.BigEndian.AppendUint32(nil, c.accm)})
}

// asks has the client negotiate anew, with an ACCM.
func (d *duet) asks(accm uint32) {
	c := &d.client.only().link.lcp
	inner := c.automaton.options
	if w, ok := inner.(characters); ok {
		inner = w.options
	}
	c.automaton.options = characters{inner, accm}
	c.begin(phaseReqSent, d.now)
	d.settle()
}

// heardOf counts the messages of a kind that come to the client from now on.
func (d *duet) heardOf(m l2tp.MessageType) *int {
	n := new(int)
	d.lose = func(from *side, b []byte) bool {
		h, body, err := l2tp.Parse(b)
		if err == nil && h.Control && len(body) > 0 && from == d.server {
			if kind, _, err := l2tp.Peek(body); err == nil && kind == m {
				*n++
			}
		}
		return false
	}
	return n
}

// A LAC learns which characters are escaped on its line, when that changes.
func TestTheLACIsToldOfTheACCM(t *testing.T) {
	d := newDuet(t)
	n := d.heardOf(l2tp.SLI)
	d.start(testServer(), testClient())
	if d.up(); *n != 0 {
		t.Fatalf("%d were sent though all is as it is assumed to be", *n)
	}
	for _, x := range []struct {
		accm uint32
		all  int
	}{{0, 1}, {0, 1}, {0xa0000, 2}, {allCharacters, 3}} {
		d.asks(x.accm)
		d.up()
		if *n != x.all || d.server.only().accm != x.accm {
			t.Errorf("%x: %d were sent, want %d; the LAC knows %x", x.accm, *n, x.all, d.server.only().accm)
		}
	}
}

// Between a LAC and the server that a session goes on to both sides hear of the
// line what they have to know.
func TestNewsOfTheLineGoOnward(t *testing.T) {
	d := trio(t, MethodCHAP, true)
	d.up()
	n := d.heardOf(l2tp.SLI)
	d.asks(0xa0000) // LCP is between the subscriber and the far server
	d.onward(t, "after LCP began anew")
	if *n != 1 || d.beyond.only().accm != 0xa0000 {
		t.Errorf("the LAC was told %d times, the server has %x", *n, d.beyond.only().accm)
	}
	home := d.client.only()
	errors := make([]byte, 26)
	errors[5] = 7
	home.push(l2tp.New(l2tp.WEN).Add(l2tp.CallErrors, errors))
	home.tunnel.flush()
	d.settle()
	for name, side := range map[string]*side{"near": d.server, "far": d.beyond} {
		for _, s := range side.engine.sessions {
			if s.tunnel.server != nil && (s.line == nil || s.line.CRC != 7) {
				t.Errorf("the %s server knows %+v", name, s.line)
			}
		}
	}
}
