package bus

import (
	"errors"
	"reflect"
	"testing"

	"weft/internal/helper"
)

func TestEventsAreTheSameOnBothEndsOfTheLine(t *testing.T) {
	why := errors.New("why")
	for _, e := range []Event{
		{Opened: &Opened{}}, {Closed: &Closed{why}}, {Closed: &Closed{}}, {Joined: &Joined{"b", true}}, {Joined: &Joined{"b", false}},
		{Left: &Left{"b", why}}, {Asked: &Asked{"b"}},
		{Message: &Message{Peer: "b", Data: []byte("data"), Missed: true, Behind: 1 << 40}}, {Message: &Message{Peer: "", Data: []byte{}}},
	} {
		m, err := EventMessage(e)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readEvent(m)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v became %+v, %v", e, got, err)
		}
		for n := range m.Data { // and what is cut is an error, not an event without its peer
			if cut, err := readEvent(helper.Message{Kind: m.Kind, Data: m.Data[:n]}); err == nil && (e.Message == nil || n < messageHead+len(e.Message.Peer)) {
				t.Errorf("%d bytes of %+v are %+v", n, e, cut)
			}
		}
	}
	if v, err := readBehind(BehindMessage(0.25).Data); err != nil || v != 0.25 {
		t.Errorf("%g, %v", v, err)
	}
}
