package subscriber

import (
	"testing"

	"weft/wire/ipv6"
	wireppp "weft/wire/ppp"
)

func TestTheServerAnswersOnTheLinkItself(t *testing.T) {
	d := newPeerPair(t)
	d.start(testServer(), testClient())
	d.up()
	c := d.client.only()
	got := 0
	d.lose = func(from *side, b []byte) bool {
		if from == d.server && len(b) > 50 && b[6+4+6] == ipv6.ICMPv6 && b[6+4+40] == 129 {
			got++
		}
		return false
	}
	echo := ipv6.Packet{From: c.linkLocal(), To: d.server.only().linkLocal(), NextHeader: ipv6.ICMPv6, HopLimit: 64, Payload: append([]byte{128, 0, 0, 0, 0, 1, 0, 1}, make([]byte, 56)...)}
	c.sendFrame(wireppp.IPv6, echo.Marshal(2))
	d.settle()
	if got != 1 {
		t.Errorf("%d answers to a ping of its link-local address", got)
	}
}
