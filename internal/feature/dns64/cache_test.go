package dns64_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func hostData() map[string][]string {
	return map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}, "h.example. AAAA": {"h.example. 60 IN AAAA 2001:db8::6"}}
}

func TestAnswersAreKeptAsLongAsTheyHold(t *testing.T) {
	b := newBench(t, settings(), hostData())
	same(t, b.ask("h.example. A"), "NOERROR", "h.example. 60 IN A 192.0.2.6")
	b.clock.pass(59 * time.Second)
	same(t, b.ask("H.example. A"), "NOERROR", "h.example. 1 IN A 192.0.2.6")
	if len(b.zone.asked) != 1 {
		t.Error("asked", b.zone.asked)
	}
	b.clock.pass(time.Second)
	same(t, b.ask("h.example. A"), "NOERROR", "h.example. 60 IN A 192.0.2.6")
	if len(b.zone.asked) != 2 {
		t.Error("asked", b.zone.asked)
	}
}

func TestNegativeAnswersAreKeptByTheSOA(t *testing.T) {
	b := newBench(t, settings(), map[string][]string{"no.example. MX": {"!NXDOMAIN", soaLine}, "bare.example. MX": {"!NXDOMAIN"}})
	for range 2 {
		b.ask("no.example. MX")
		b.ask("bare.example. MX") // without SOA: not kept, RFC 2308 5
		b.clock.pass(299 * time.Second)
	}
	if len(b.zone.asked) != 3 {
		t.Error("asked", b.zone.asked)
	}
	b.clock.pass(time.Second)
	b.ask("no.example. MX")
	if len(b.zone.asked) != 4 {
		t.Error("asked", b.zone.asked)
	}
}

func TestFailuresAreKeptForAMoment(t *testing.T) {
	b := newBench(t, settings(), map[string][]string{"f.example. A": {"!SERVFAIL"}})
	for range 3 {
		same(t, b.ask("f.example. A"), "SERVFAIL")
	}
	if len(b.zone.asked) != 1 {
		t.Error("asked", b.zone.asked)
	}
	b.clock.pass(6 * time.Second)
	b.ask("f.example. A")
	if len(b.zone.asked) != 2 {
		t.Error("asked", b.zone.asked)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	s := settings()
	s.Cache.Entries = 10
	data := map[string][]string{}
	for i := range 50 {
		data[fmt.Sprintf("h%d.example. A", i)] = []string{fmt.Sprintf("h%d.example. 60 IN A 192.0.2.6", i)}
	}
	b := newBench(t, s, data)
	for i := range 50 {
		b.ask(fmt.Sprintf("h%d.example. A", i))
	}
	b.tasks.Wait()
	if n := b.Cached(); n != 10 {
		t.Errorf("%d answers are kept", n)
	}
	s.Cache.Entries = 3
	b.Update(s)
	if n := b.Cached(); n != 3 {
		t.Errorf("%d answers are kept after the bound fell", n)
	}
	asked := len(b.zone.asked)
	b.ask("h49.example. A")
	if len(b.zone.asked) != asked {
		t.Error("the last one is not among them")
	}
}

func TestStaleAnswersWhenNobodyAnswers(t *testing.T) {
	s := settings()
	s.Cache.Stale = time.Hour
	b := newBench(t, s, hostData())
	b.ask("h.example. A")
	b.clock.pass(2 * time.Minute)
	b.zone.data["h.example. A"] = []string{"!timeout"}
	same(t, b.ask("h.example. A"), "NOERROR", "h.example. 30 IN A 192.0.2.6")
	// the failure has not taken its place
	same(t, b.ask("h.example. A"), "NOERROR", "h.example. 30 IN A 192.0.2.6")
	if b.count("stale") != 2 {
		t.Error("not counted")
	}
	b.clock.pass(time.Hour)
	same(t, b.ask("h.example. A"), "SERVFAIL")
}

func TestAStaleAnswerNeedNotWaitForTheForwarder(t *testing.T) {
	s := settings()
	s.Cache.Stale = time.Hour
	b := newBench(t, s, hostData())
	b.ask("h.example. A")
	b.clock.pass(2 * time.Minute)
	hold := make(chan struct{})
	b.zone.hold = hold
	got := make(chan *dns.Msg)
	go func() { got <- b.ask("h.example. A") }()
	b.after <- time.Time{} // patience is over
	same(t, <-got, "NOERROR", "h.example. 30 IN A 192.0.2.6")
	close(hold)
	b.tasks.Wait()
	same(t, b.ask("h.example. A"), "NOERROR", "h.example. 60 IN A 192.0.2.6")
}

func TestWhatIsInUseIsAskedForAgainInTime(t *testing.T) {
	s := settings()
	s.Cache.Prefetch = true
	b := newBench(t, s, hostData())
	b.ask("h.example. A")
	b.clock.pass(55 * time.Second)
	same(t, b.ask("h.example. A"), "NOERROR", "h.example. 5 IN A 192.0.2.6")
	b.tasks.Wait()
	same(t, b.ask("h.example. A"), "NOERROR", "h.example. 60 IN A 192.0.2.6")
	if len(b.zone.asked) != 2 || b.count("prefetched") != 1 {
		t.Error("asked", b.zone.asked)
	}
}

func TestOneQuestionIsAskedOnce(t *testing.T) {
	b := newBench(t, settings(), hostData())
	hold := make(chan struct{})
	b.zone.hold = hold
	got := make(chan *dns.Msg)
	for range 20 {
		go func() { got <- b.ask("h.example. A") }()
	}
	for b.count("joined") < 19 {
		runtime.Gosched() // until all are waiting
	}
	close(hold)
	for range 20 {
		same(t, <-got, "NOERROR", "h.example. 60 IN A 192.0.2.6")
	}
	if len(b.zone.asked) != 1 {
		t.Error("asked", b.zone.asked)
	}
}

func TestAClientThatAsksTooMuchIsLeftWaiting(t *testing.T) {
	s := settings()
	s.Rate = 5
	b := newBench(t, s, hostData())
	silent := 0
	for range 30 {
		if b.from("2001:db8:1::2", "h.example. A") == nil {
			silent++
		}
	}
	if silent != 20 || b.count("limited") != 20 {
		t.Errorf("%d of 30 were not answered", silent)
	}
	silent = 0
	for i := range 200 { // one host, many addresses of its /64
		if b.from(fmt.Sprintf("2001:db8:1::1:%x", i+2), "h.example. A") == nil {
			silent++
		}
	}
	if silent != 200-90 { // ten of 100 went to the first address
		t.Errorf("%d of 200 were not answered", silent)
	}
	same(t, b.from("192.0.2.7", "h.example. A"), "NOERROR", "h.example. 60 IN A 192.0.2.6")
	b.clock.pass(time.Second)
	if b.ask("h.example. A") == nil {
		t.Error("it has to wait for ever")
	}
}

// What comes in must never crash it, and what goes out can be sent.
func FuzzHandle(f *testing.F) {
	for _, q := range []string{"h.example. AAAA", reverse("2001:db8:64::1") + " PTR", "ipv4only.arpa. AAAA"} {
		m := new(dns.Msg)
		var name, typ string
		fmt.Sscan(q, &name, &typ)
		m.SetQuestion(name, dns.StringToType[typ])
		m.SetEdns0(1232, true)
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, asks, answers []byte) {
		m, up := new(dns.Msg), new(dns.Msg)
		if m.Unpack(asks) != nil {
			return
		}
		if up.Unpack(answers) != nil {
			up = nil
		}
		b := newBench(t, settings(), nil)
		b.replace(raw{up})
		for _, udp := range []bool{true, false} {
			reply := b.Handle(context.Background(), netip.MustParseAddr(member), m, udp)
			if reply == nil {
				continue
			}
			packed, err := reply.Pack()
			if err == nil && udp && len(packed) > 1232 {
				t.Fatalf("%d bytes over UDP", len(packed))
			}
		}
	})
}
