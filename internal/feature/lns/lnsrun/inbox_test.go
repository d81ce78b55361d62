package lnsrun

import (
	"net/netip"
	"testing"

	"weft/wire/l2tp"
)

// In a flood of requests for tunnels, from many addresses, a message in a tunnel waits for
// one batch at most, and so does the request of another address: none of its own waits.
func TestAFloodOfRequestsKeepsNobodyElsesMessagesWaiting(t *testing.T) {
	at := func(last byte) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, last}), 1701)
	}
	sccrq := l2tp.Control{Body: l2tp.New(l2tp.SCCRQ).Marshal()}.Marshal()
	iccn := l2tp.Control{Tunnel: 7, Body: l2tp.New(l2tp.ICCN).Marshal()}.Marshal()
	x := newInbox()
	for i := range 100_000 {
		x.put(sccrq, at(byte(i%200)))
	}
	if len(x.fresh) != waitingNew || len(x.from) < 150 {
		t.Fatalf("%d requests of %d addresses wait", len(x.fresh), len(x.from))
	}
	x.put(sccrq, at(250))
	buffer := append([]byte(nil), iccn...)
	x.put(buffer, at(2))
	clear(buffer) // the socket's is used again
	batch := x.take()
	if len(batch) != 1+togetherNew || string(batch[0].bytes) != string(iccn) || batch[0].from != at(2) {
		t.Fatalf("the first batch has %d", len(batch))
	}
	found := false
	for len(x.fresh) > 0 {
		for _, d := range x.take() {
			found = found || d.from == at(250)
		}
	}
	if !found {
		t.Error("the request of another address got no place")
	}
	if len(x.from) != 0 || x.bytes != 0 {
		t.Errorf("%d addresses and %d bytes are counted, and nothing waits", len(x.from), x.bytes)
	}
}

// What waits is bounded, and comes in its order.
func TestWhatWaitsIsBoundedAndKeepsItsOrder(t *testing.T) {
	x := newInbox()
	from := netip.MustParseAddrPort("198.51.100.2:1701")
	for i := range 1 << 16 {
		x.put(l2tp.AppendData(nil, 7, uint16(i), make([]byte, 1000)), from)
	}
	if x.bytes > waitingKnown || len(x.known) < 10000 {
		t.Fatalf("%d datagrams of %d bytes wait", len(x.known), x.bytes)
	}
	x.end()
	next := uint16(0)
	for batch := x.take(); len(batch) > 0; batch = x.take() {
		for _, d := range batch {
			if h, _, err := l2tp.Parse(d.bytes); err != nil || h.Session != next {
				t.Fatalf("%d comes, want %d (%v)", h.Session, next, err)
			}
			next++
		}
	}
	if next < 10000 {
		t.Errorf("%d have come", next)
	}
}
