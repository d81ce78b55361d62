package subscribertable

import (
	"bytes"
	"testing"
	"time"

	"weft/internal/datapath/datapathtest"
	"weft/internal/state"
)

// A session that is looked at: both directions, through both builds, and
// nothing of the others.
func TestPacketsOfASessionAreCopied(t *testing.T) {
	l := newLNS(t)
	c, err := Of(l.Datapath).Captures()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	next := func() (state.LNSCapture, bool) {
		t.Helper()
		p, ok, err := c.Read(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return p, ok
	}
	l.alice.Capture = true
	l.alice.MTU = 9000
	l.put(l.alice, l.bob)
	for _, build := range datapathtest.Builds {
		l.Program(build) // the verifier takes its time
		up := datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes()
		up6 := datapathtest.Udp(alice6, "2001:db8:1::7", 1300).Bytes()
		down := l.Frame("lan", datapathtest.Udp(datapathtest.Router4, alice4, 33).Bytes())
		for name, x := range map[string]struct {
			frame []byte
			ip    []byte
			up    bool
		}{
			"from her, IPv4":           {l.outer(peer4, here4, plain(17, 100, up)), up, true},
			"from her, IPv6, numbered": {l.outer(peer4, here4, forms()[3].write(17, 100, up6)), up6, true},
			"to her":                   {down, down[14:], false},
		} {
			before := time.Now()
			if build == "ingress_xdp" && x.up { // it would be copied twice
				if _, got := l.One(build, x.frame); got != state.PassToTc {
					t.Errorf("%s: %s: %s", build, name, got)
				}
				continue
			}
			if _, got := l.One(build, x.frame); got.Verdict() != state.Forward {
				t.Fatalf("%s: %s: %s", build, name, got)
			}
			p, ok := next()
			if !ok || p.Session != 100 || p.Up != x.up || p.Length != len(x.ip) || p.PPP || !bytes.Equal(p.Bytes, x.ip) {
				t.Errorf("%s: %s: copied is %v %+v, want %x", build, name, ok, p, x.ip)
			}
			if d := p.At.Sub(before); d < -time.Second || d > time.Minute {
				t.Errorf("%s: %s: it is of %s, and now is %s", build, name, p.At, before)
			}
		}
		// spoofed packets belong to no session; the other session is not captured
		l.One(build, l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(bob4, "198.51.100.7", 20).Bytes())))
		l.One(build, l.outer(peer6, here6, plain(18, 101, datapathtest.Udp(bob4, "198.51.100.7", 20).Bytes())))
		if p, ok := next(); ok {
			t.Errorf("%s: copied is %+v too", build, p)
		}
	}
	// what there is no room for is counted, and goes its way
	for range 400 {
		if _, got := l.One("ingress_tc", l.outer(peer4, here4, plain(17, 100, datapathtest.Udp(alice4, "198.51.100.7", 20).Bytes()))); got != state.ForwardFromSubscriber {
			t.Fatal(got)
		}
	}
	counters, err := l.subscribers.Counters([]uint16{100})
	if err != nil || len(counters) != 1 || counters[0].Uncaptured == 0 || counters[0].Uncaptured > 200 {
		t.Errorf("of 400 unread packets were lost: %+v, %v", counters, err)
	}
	n := 0
	for _, ok := next(); ok; _, ok = next() {
		n++
	}
	if n+int(counters[0].Uncaptured) != 400 {
		t.Errorf("%d packets were read, %d lost, of 400", n, counters[0].Uncaptured)
	}
}
