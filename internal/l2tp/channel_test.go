package l2tp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/wire/l2tp"
)

// wire collects what a channel sends: "3/7" is message 3 that expects 7, "ack/7" an
// acknowledgement.
type wire struct {
	t    *testing.T
	sent []string
}

func (w *wire) send(b []byte) {
	h, body, err := l2tp.Parse(b)
	if err != nil || !h.Control {
		w.t.Fatalf("%x is no control message: %v", b, err)
	}
	if len(body) == 0 {
		w.sent = append(w.sent, fmt.Sprintf("ack/%d", h.Nr))
	} else {
		w.sent = append(w.sent, fmt.Sprintf("%d/%d", h.Ns, h.Nr))
	}
}

func (w *wire) is(what, want string) {
	w.t.Helper()
	if got := strings.Join(w.sent, " "); got != want {
		w.t.Errorf("%s: it sends %q, want %q", what, got, want)
	}
	w.sent = nil
}

// Never is more on its way than the peer has room for, and at first less (RFC 2661
// section 5.8 and appendix A).
func TestTheWindowOfTheOtherSideIsKept(t *testing.T) {
	w, now := &wire{t: t}, time.Unix(1000, 0)
	c := newChannel(7)
	c.setWindow(2)
	for range 5 {
		c.push(0, []byte{1})
	}
	ack := func(nr uint16) { c.receive(l2tp.Header{Nr: nr}, true, now); c.flush(now, w.send) }
	c.flush(now, w.send)
	w.is("slow start", "0/0")
	ack(1)
	w.is("one acknowledged", "1/0 2/0")
	ack(1)
	w.is("nothing new", "")
	ack(2)
	w.is("one more", "3/0")
	ack(9)
	w.is("an acknowledgement of what was never sent", "")
	ack(4)
	w.is("both", "4/0")
	if ack(5); !c.idle() || !c.due().IsZero() {
		t.Errorf("it still waits until %v", c.due())
	}
}

// A peer without a window has that of the standard, four messages (RFC 2661
// section 4.4.3).
func TestAReceiveWindowOfZeroIsTheDefault(t *testing.T) {
	w, now := &wire{t: t}, time.Unix(1000, 0)
	c := newChannel(7)
	c.setWindow(0)
	for range 20 {
		c.push(0, []byte{1})
	}
	c.flush(now, w.send)
	most := 0
	for nr := uint16(1); nr <= 16; nr++ {
		c.receive(l2tp.Header{Nr: nr}, true, now)
		c.flush(now, w.send)
		most = max(most, len(w.sent)-int(nr))
	}
	if most != 4 {
		t.Errorf("at most %d messages are on their way, want 4", most)
	}
}

// What is not acknowledged comes again after one, two, four and eight seconds,
// and then the peer is gone.
func TestWhatIsNotAcknowledgedComesAgain(t *testing.T) {
	w, now := &wire{t: t}, time.Unix(1000, 0)
	begin := now
	c := newChannel(7)
	c.push(0, []byte{1})
	c.push(0, []byte{2})
	c.flush(now, w.send)
	w.is("first", "0/0")
	var at []time.Duration
	for {
		now = c.due()
		if !c.tick(now, w.send) {
			break
		}
		at = append(at, now.Sub(begin))
		w.is("again", "0/0")
	}
	want := []time.Duration{1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 23 * time.Second, 31 * time.Second}
	if !slices.Equal(at, want) || now.Sub(begin) != 39*time.Second {
		t.Errorf("it comes again after %v, and is given up after %v", at, now.Sub(begin))
	}
}

func TestWhatTheOtherSideSendsIsTakenOnceAndInOrder(t *testing.T) {
	w, now := &wire{t: t}, time.Unix(1000, 0)
	c := newChannel(7)
	c.nr = 65535
	take := func(ns uint16) bool {
		is := c.receive(l2tp.Header{Ns: ns}, false, now)
		c.flush(now, w.send)
		return is
	}
	for i, step := range []struct {
		ns    uint16
		taken bool
		sends string
	}{
		{65535, true, "ack/0"}, // numbers go round
		{65535, false, "ack/0"},
		{1, false, "ack/0"},
		{0, true, "ack/1"},
		{1, true, "ack/2"},
		{65535, false, "ack/2"},
	} {
		if is := take(step.ns); is != step.taken {
			t.Errorf("step %d: message %d is taken: %v", i, step.ns, is)
		}
		w.is(fmt.Sprintf("step %d", i), step.sends)
	}
	// what is sent anyway acknowledges, and an acknowledgement is not acknowledged
	c.receive(l2tp.Header{Ns: 2}, false, now)
	c.push(0, []byte{1})
	c.flush(now, w.send)
	w.is("a message of our own", "0/3")
	c.receive(l2tp.Header{Ns: 3, Nr: 1}, true, now)
	c.flush(now, w.send)
	w.is("an acknowledgement", "")
}
