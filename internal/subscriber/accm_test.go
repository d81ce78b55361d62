package subscriber

import (
	"bytes"
	"encoding/binary"
	"testing"

	"weft/internal/ppp"
	wirel2tp "weft/wire/l2tp"
	wireppp "weft/wire/ppp"
)

// asks has the subscriber negotiate LCP again, with an ACCM: the option is put into what
// the client asks for, and taken out of what is agreed to.
func (d *peerPair) asks(accm uint32) {
	option := wireppp.MarshalOptions([]wireppp.Option{{Type: wireppp.OptACCM, Data: binary.BigEndian.AppendUint32(nil, accm)}})
	d.change = func(from *side, b []byte) []byte {
		h, frame, err := wirel2tp.Parse(b)
		if err != nil || h.Control {
			return b
		}
		protocol, b2, err := wireppp.ParseFrame(frame)
		if err != nil || protocol != wireppp.LCP {
			return b
		}
		p, err := wireppp.ParsePacket(b2)
		switch {
		case err != nil:
			d.t.Fatal(err)
		case from == d.client && p.Code == wireppp.ConfigureRequest && !bytes.Contains(p.Data, option):
			p.Data = append(bytes.Clone(p.Data), option...)
		case from == d.server && p.Code == wireppp.ConfigureAck:
			p.Data = bytes.Replace(p.Data, option, nil, 1)
		default:
			return b
		}
		return wirel2tp.AppendData(nil, h.Tunnel, h.Session, wireppp.AppendFrame(nil, wireppp.LCP, p.Marshal()))
	}
	d.client.only().sendFrame(wireppp.LCP, wireppp.Packet{Code: wireppp.ConfigureRequest, ID: 200}.Marshal())
	d.settle()
}

// receivedOf counts the messages of a kind that come to the client from now on.
func (d *peerPair) receivedOf(m wirel2tp.MessageType) *int {
	n := new(int)
	d.lose = func(from *side, b []byte) bool {
		h, body, err := wirel2tp.Parse(b)
		if err == nil && h.Control && len(body) > 0 && from == d.server {
			if kind, _, err := wirel2tp.Peek(body); err == nil && kind == m {
				*n++
			}
		}
		return false
	}
	return n
}

// A LAC learns which characters are escaped on its line, when that changes.
func TestTheLACIsToldOfTheACCM(t *testing.T) {
	d := newPeerPair(t)
	n := d.receivedOf(wirel2tp.SLI)
	d.start(testServer(), testClient())
	if d.up(); *n != 0 {
		t.Fatalf("%d were sent though all is as it is assumed to be", *n)
	}
	for _, x := range []struct {
		accm uint32
		all  int
	}{{0, 1}, {0, 1}, {0xa0000, 2}, {ppp.DefaultACCM, 3}} {
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
	d := trio(t, ppp.MethodCHAP, true)
	d.up()
	n := d.receivedOf(wirel2tp.SLI)
	d.asks(0xa0000) // LCP is between the subscriber and the far server
	d.switched(t, "after LCP was renegotiated")
	if *n != 1 || d.beyond.only().accm != 0xa0000 {
		t.Errorf("the LAC got %d SLIs, the server has %x", *n, d.beyond.only().accm)
	}
	home := d.client.only()
	errors := make([]byte, 26)
	errors[5] = 7
	d.inject(d.client, home.tunnel, home.l2tp.Remote(), wirel2tp.New(wirel2tp.WEN).Add(wirel2tp.CallErrors, errors))
	d.settle()
	for name, side := range map[string]*side{"near": d.server, "far": d.beyond} {
		for _, s := range side.engine.sessions {
			if s.tunnel.server != nil && (s.line == nil || s.line.CRC != 7) {
				t.Errorf("the %s server knows %+v", name, s.line)
			}
		}
	}
}
