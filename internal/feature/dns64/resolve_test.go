package dns64_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/feature/dns64"
)

// zone is an upstream that knows records by "name type", or fails. A text that
// begins with ! is an error: !SERVFAIL, !NXDOMAIN, !timeout, !BOGUS.
type zone struct {
	mu    sync.Mutex
	data  map[string][]string
	ad    map[string]bool
	asked []string
	hold  chan struct{} // if there is one, answers wait for it
}

const soa = "example. 900 IN SOA ns.example. root.example. 1 2 3 4 300"

func (z *zone) Ask(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	key := fmt.Sprintf("%s %s", q.Question[0].Name, dns.TypeToString[q.Question[0].Qtype])
	z.mu.Lock()
	z.asked = append(z.asked, key)
	lines, known := z.data[key]
	hold, ad := z.hold, z.ad[key]
	z.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r := new(dns.Msg)
	r.SetReply(q)
	r.AuthenticatedData = ad
	if !known {
		lines = []string{"; " + soa}
	}
	for _, line := range lines {
		switch {
		case line == "!timeout":
			return nil, errors.New("no server answered")
		case line == "!BOGUS":
			r.Rcode = dns.RcodeServerFailure
			r.SetEdns0(1232, false)
			r.IsEdns0().Option = append(r.IsEdns0().Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus})
		case strings.HasPrefix(line, "!"):
			r.Rcode = dns.StringToRcode[line[1:]]
		case strings.HasPrefix(line, "; "):
			r.Ns = append(r.Ns, record(line[2:]))
		case strings.HasPrefix(line, "+ "):
			r.Extra = append(r.Extra, record(line[2:]))
		default:
			r.Answer = append(r.Answer, record(line))
		}
	}
	return r, nil
}

func record(s string) dns.RR {
	rr, err := dns.NewRR(s)
	if err != nil {
		panic(err)
	}
	return rr
}

// clock stands still unless it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }
func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

type bench struct {
	*dns64.Resolver
	zone  *zone
	clock *clock
	after chan time.Time
	tasks sync.WaitGroup
}

func settings() dns64.Settings {
	return dns64.Settings{
		Rules:   []dns64.Rule{{Prefix: netip.MustParsePrefix("2001:db8:64::/96")}},
		Clients: []netip.Prefix{netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParsePrefix("192.0.2.0/24")},
		Exclude: []netip.Prefix{netip.MustParsePrefix("2001:db8:bad::/48")},
		PTR:     true, TrustAD: true,
		Cache: dns64.CacheSettings{Entries: 100, Max: time.Hour, NegativeMax: time.Hour},
	}
}

func newBench(t *testing.T, s dns64.Settings, data map[string][]string) *bench {
	b := &bench{zone: &zone{data: data, ad: map[string]bool{}}, clock: &clock{at: time.Unix(1e9, 0)}, after: make(chan time.Time)}
	b.Resolver = dns64.NewResolver(dns64.Outside{
		Upstream: b.zone, Now: b.clock.now,
		After: func(time.Duration) <-chan time.Time { return b.after },
		Start: func(task func(context.Context)) { b.tasks.Go(func() { task(context.Background()) }) },
	}, s)
	t.Cleanup(b.tasks.Wait)
	return b
}

const member = "2001:db8:1::2"

func (b *bench) ask(question string, change ...func(*dns.Msg)) *dns.Msg {
	return b.from(member, question, change...)
}

func (b *bench) from(client, question string, change ...func(*dns.Msg)) *dns.Msg {
	m := new(dns.Msg)
	name, typ, _ := strings.Cut(question, " ")
	m.SetQuestion(name, dns.StringToType[typ])
	for _, c := range change {
		c(m)
	}
	return b.Handle(context.Background(), netip.MustParseAddr(client), m, true)
}

func (b *bench) count(name string) uint64 {
	for _, c := range b.Counters() {
		if c.Name == name {
			return c.Count
		}
	}
	panic("no counter " + name)
}

// lines writes a reply for comparison: code, flags, answer, and the authority
// section behind a semicolon.
func lines(m *dns.Msg) []string {
	if m == nil {
		return []string{"silence"}
	}
	first := dns.RcodeToString[m.Rcode]
	if m.AuthenticatedData {
		first += " ad"
	}
	if m.Truncated {
		first += " tc"
	}
	out := []string{first}
	add := func(mark string, rrs []dns.RR) {
		for _, rr := range rrs {
			if rr.Header().Rrtype != dns.TypeOPT {
				out = append(out, mark+strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
	}
	add("", m.Answer)
	add("; ", m.Ns)
	add("+ ", m.Extra)
	return out
}

func same(t *testing.T, got *dns.Msg, want ...string) {
	t.Helper()
	if g := lines(got); !slices.Equal(g, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(g, "\n  "), strings.Join(want, "\n  "))
	}
}

const soaLine = "; " + soa

func do(m *dns.Msg)   { m.SetEdns0(1232, true) }
func cd(m *dns.Msg)   { m.CheckingDisabled = true }
func ad(m *dns.Msg)   { m.AuthenticatedData = true }
func noRD(m *dns.Msg) { m.RecursionDesired = false }

func TestAnswersAreThoseOfRFC6147(t *testing.T) {
	for _, c := range []struct {
		name     string // and section
		data     map[string][]string
		question string
		change   []func(*dns.Msg)
		want     []string
	}{
		{"5.1.1 a native address is left as it is",
			map[string][]string{"six.example. AAAA": {"six.example. 60 IN AAAA 2001:db8::6"}, "six.example. A": {"six.example. 60 IN A 192.0.2.6"}},
			"six.example. AAAA", nil, []string{"NOERROR", "six.example. 60 IN AAAA 2001:db8::6"}},
		{"5.1.2 there is no such name",
			map[string][]string{"no.example. AAAA": {"!NXDOMAIN", soaLine}, "no.example. A": {"no.example. 60 IN A 192.0.2.6"}},
			"no.example. AAAA", nil, []string{"NXDOMAIN", soaLine}},
		{"5.1.2 another error counts as an empty answer",
			map[string][]string{"f.example. AAAA": {"!SERVFAIL"}, "f.example. A": {"f.example. 7000 IN A 192.0.2.6"}},
			"f.example. AAAA", nil, []string{"NOERROR", "f.example. 600 IN AAAA 2001:db8:64::c000:206"}},
		{"5.1.3 no answer counts as an empty one",
			map[string][]string{"t.example. AAAA": {"!timeout"}, "t.example. A": {"t.example. 60 IN A 192.0.2.6"}},
			"t.example. AAAA", nil, []string{"NOERROR", "t.example. 60 IN AAAA 2001:db8:64::c000:206"}},
		{"5.1.3 nor is there an answer for A",
			map[string][]string{"t.example. AAAA": {"!timeout"}, "t.example. A": {"!timeout"}},
			"t.example. AAAA", nil, []string{"SERVFAIL"}},
		{"5.1.4 only excluded addresses count as none",
			map[string][]string{"x.example. AAAA": {"x.example. 60 IN AAAA ::ffff:192.0.2.6", "x.example. 60 IN AAAA 2001:db8:bad::1"}, "x.example. A": {"x.example. 60 IN A 192.0.2.6"}},
			"x.example. AAAA", nil, []string{"NOERROR", "x.example. 60 IN AAAA 2001:db8:64::c000:206"}},
		{"5.1.4 excluded addresses are taken out, and so is the signature over them",
			map[string][]string{"x.example. AAAA": {"x.example. 60 IN AAAA 2001:db8:bad::1", "x.example. 60 IN AAAA 2001:db8::6", "x.example. 60 IN RRSIG AAAA 8 2 60 20300101000000 20200101000000 1 example. AAAA"}},
			"x.example. AAAA", []func(*dns.Msg){do}, []string{"NOERROR", "x.example. 60 IN AAAA 2001:db8::6"}},
		{"5.1.4 what is excluded is never returned, even without A",
			map[string][]string{"x.example. AAAA": {"x.example. 60 IN AAAA 2001:db8:bad::1"}},
			"x.example. AAAA", nil, []string{"NOERROR"}},
		{"5.1.5 an alias is followed to the A record",
			map[string][]string{"www.example. AAAA": {"www.example. 50 IN CNAME host.example.", soaLine}, "www.example. A": {"www.example. 50 IN CNAME host.example.", "host.example. 60 IN A 192.0.2.6"}},
			"www.example. AAAA", nil, []string{"NOERROR", "www.example. 50 IN CNAME host.example.", "host.example. 60 IN AAAA 2001:db8:64::c000:206"}},
		{"5.1.5 an alias for what is below a name, too",
			map[string][]string{"a.old.example. A": {"old.example. 50 IN DNAME new.example.", "a.old.example. 50 IN CNAME a.new.example.", "a.new.example. 60 IN A 192.0.2.6"}},
			"a.old.example. AAAA", nil, []string{"NOERROR", "old.example. 50 IN DNAME new.example.", "a.old.example. 50 IN CNAME a.new.example.", "a.new.example. 60 IN AAAA 2001:db8:64::c000:206"}},
		{"5.1.6 neither AAAA nor A",
			nil, "mx.example. AAAA", nil, []string{"NOERROR", soaLine}},
		{"5.1.7 the TTL is at most that of the news that there is no AAAA",
			map[string][]string{"h.example. A": {"h.example. 7000 IN A 192.0.2.6"}},
			"h.example. AAAA", nil, []string{"NOERROR", "h.example. 300 IN AAAA 2001:db8:64::c000:206"}},
		{"5.1.7 every A record becomes one AAAA",
			map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6", "h.example. 60 IN A 192.0.2.7"}},
			"h.example. AAAA", nil, []string{"NOERROR", "h.example. 60 IN AAAA 2001:db8:64::c000:206", "h.example. 60 IN AAAA 2001:db8:64::c000:207"}},
		{"5.3.1 a reverse name under the prefix is an alias",
			map[string][]string{"6.2.0.192.in-addr.arpa. PTR": {"6.2.0.192.in-addr.arpa. 60 IN PTR host.example."}},
			reverse("2001:db8:64::c000:206") + " PTR", nil,
			[]string{"NOERROR", reverse("2001:db8:64::c000:206") + " 600 IN CNAME 6.2.0.192.in-addr.arpa.", "6.2.0.192.in-addr.arpa. 60 IN PTR host.example."}},
		{"5.3.1 other reverse names are asked for",
			map[string][]string{reverse("2001:db8::6") + " PTR": {reverse("2001:db8::6") + " 60 IN PTR six.example."}},
			reverse("2001:db8::6") + " PTR", nil, []string{"NOERROR", reverse("2001:db8::6") + " 60 IN PTR six.example."}},
		{"5.3.2 the additional section is left alone",
			map[string][]string{"example. MX": {"example. 60 IN MX 1 h.example.", "+ h.example. 60 IN A 192.0.2.6"}},
			"example. MX", nil, []string{"NOERROR", "example. 60 IN MX 1 h.example.", "+ h.example. 60 IN A 192.0.2.6"}},
		{"5.5 case 3: with DO and CD the client does it all",
			map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}},
			"h.example. AAAA", []func(*dns.Msg){do, cd}, []string{"NOERROR", soaLine}},
		{"5.5 case 2: with DO alone addresses are made",
			map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}},
			"h.example. AAAA", []func(*dns.Msg){do}, []string{"NOERROR", "h.example. 60 IN AAAA 2001:db8:64::c000:206"}},
		{"5.5 with CD alone it is done here",
			map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}},
			"h.example. AAAA", []func(*dns.Msg){cd}, []string{"NOERROR", "h.example. 60 IN AAAA 2001:db8:64::c000:206"}},
		{"5.5 what does not validate fails, A or not",
			map[string][]string{"b.example. AAAA": {"!BOGUS"}, "b.example. A": {"b.example. 60 IN A 192.0.2.6"}},
			"b.example. AAAA", nil, []string{"SERVFAIL"}},
		{"records of other names are not believed (RFC 5452)",
			map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6", "bank.example. 60 IN A 192.0.2.66"}},
			"h.example. A", nil, []string{"NOERROR", "h.example. 60 IN A 192.0.2.6"}},
		{"A records are given as they are", map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}},
			"h.example. A", nil, []string{"NOERROR", "h.example. 60 IN A 192.0.2.6"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, newBench(t, settings(), c.data).ask(c.question, c.change...), c.want...)
		})
	}
}

func reverse(a string) string {
	s, err := dns.ReverseAddr(a)
	if err != nil {
		panic(err)
	}
	return s
}

func TestAuthenticDataNeedsBothAnswers(t *testing.T) {
	data := map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}}
	for _, c := range []struct {
		none, a, trust, asks bool
		want                 string
	}{
		{true, true, true, true, "NOERROR ad"},
		{true, true, true, false, "NOERROR"}, // RFC 6840 5.8
		{false, true, true, true, "NOERROR"},
		{true, false, true, true, "NOERROR"},
		{true, true, false, true, "NOERROR"},
	} {
		s := settings()
		s.TrustAD = c.trust
		b := newBench(t, s, data)
		b.zone.ad = map[string]bool{"h.example. AAAA": c.none, "h.example. A": c.a}
		var change []func(*dns.Msg)
		if c.asks {
			change = append(change, ad)
		}
		if got := lines(b.ask("h.example. AAAA", change...))[0]; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestIPv4OnlyArpaIsAnsweredHere(t *testing.T) {
	s := settings()
	s.Rules = append(s.Rules, dns64.Rule{Prefix: netip.MustParsePrefix("64:ff9b::/96")})
	b := newBench(t, s, nil)
	same(t, b.ask("IPv4Only.arpa. A"), "NOERROR", "ipv4only.arpa. 600 IN A 192.0.0.170", "ipv4only.arpa. 600 IN A 192.0.0.171")
	// both prefixes, though the addresses are not global
	same(t, b.ask("ipv4only.arpa. AAAA", do, cd), "NOERROR",
		"ipv4only.arpa. 600 IN AAAA 2001:db8:64::c000:aa", "ipv4only.arpa. 600 IN AAAA 64:ff9b::c000:aa",
		"ipv4only.arpa. 600 IN AAAA 2001:db8:64::c000:ab", "ipv4only.arpa. 600 IN AAAA 64:ff9b::c000:ab")
	if m := b.ask("x.ipv4only.arpa. A"); m.Rcode != dns.RcodeNameError {
		t.Error("names below exist:", lines(m))
	}
	if m := b.ask("ipv4only.arpa. TXT"); m.Rcode != 0 || len(m.Answer) != 0 || len(m.Ns) != 1 {
		t.Error("other types:", lines(m))
	}
	same(t, b.ask("170.0.0.192.in-addr.arpa. PTR"), "NOERROR", "170.0.0.192.in-addr.arpa. 600 IN PTR ipv4only.arpa.")
	r := reverse("64:ff9b::c000:ab")
	same(t, b.ask(r+" PTR"), "NOERROR", r+" 600 IN CNAME 171.0.0.192.in-addr.arpa.", "171.0.0.192.in-addr.arpa. 600 IN PTR ipv4only.arpa.")
	if len(b.zone.asked) != 0 {
		t.Error("asked upstream:", b.zone.asked)
	}
	b.ask("ipv4only.arpa. DS") // the parent's, RFC 8880 7.2
	if len(b.zone.asked) != 1 {
		t.Error("asked upstream:", b.zone.asked)
	}
}

func TestSpecialNamesStayHere(t *testing.T) {
	b := newBench(t, settings(), nil)
	same(t, b.ask("localhost. AAAA"), "NOERROR", "localhost. 600 IN AAAA ::1")
	same(t, b.ask("a.localhost. A"), "NOERROR", "a.localhost. 600 IN A 127.0.0.1")
	for name, rcode := range map[string]int{"a.invalid.": 3, "b.onion.": 3, "printer.local.": 3, "_dns.resolver.arpa.": 0} {
		m := b.ask(name + " SVCB")
		if m.Rcode != rcode || len(m.Answer) != 0 || len(m.Ns) != 1 {
			t.Error(name, lines(m))
		}
	}
	if len(b.zone.asked) != 0 {
		t.Error("asked upstream:", b.zone.asked)
	}
	b.ask("notlocalhost. A")
	if len(b.zone.asked) != 1 {
		t.Error("a name that only ends alike is taken for it")
	}
}

func TestRulesAreByClientAndAddress(t *testing.T) {
	s := settings()
	p := netip.MustParsePrefix
	s.Clients = []netip.Prefix{p("::/0"), p("0.0.0.0/0")}
	s.Rules = []dns64.Rule{
		{Prefix: p("2001:db8:a::/96"), Clients: []netip.Prefix{p("2001:db8:1::/64")}},
		{Prefix: p("2001:db8:b::/96"), Clients: []netip.Prefix{p("2001:db8:2::/64"), p("192.0.2.0/24")}, Mapped: []netip.Prefix{p("10.0.0.0/8")}},
		{Prefix: p("64:ff9b::/96"), Clients: []netip.Prefix{p("2001:db8:2::/64")}, Exclude: []netip.Prefix{p("9.0.0.0/8")}},
	}
	b := newBench(t, s, map[string][]string{"h.example. A": {"h.example. 60 IN A 10.0.0.1", "h.example. 60 IN A 8.8.4.4", "h.example. 60 IN A 9.9.9.9"}})
	const head = "h.example. 60 IN AAAA "
	same(t, b.from("2001:db8:1::9", "h.example. AAAA"), "NOERROR", head+"2001:db8:a::a00:1", head+"2001:db8:a::808:404", head+"2001:db8:a::909:909")
	same(t, b.from("2001:db8:2::9", "h.example. AAAA"), "NOERROR", head+"2001:db8:b::a00:1", head+"64:ff9b::808:404")
	same(t, b.from("192.0.2.9", "h.example. AAAA"), "NOERROR", head+"2001:db8:b::a00:1")
	same(t, b.from("::ffff:192.0.2.9", "h.example. AAAA"), "NOERROR", head+"2001:db8:b::a00:1")
	same(t, b.from("2001:db8:3::9", "h.example. AAAA"), "NOERROR", soaLine)
}

func TestWhoMayAsk(t *testing.T) {
	s := settings()
	b := newBench(t, s, map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}})
	for client, want := range map[string]string{member: "NOERROR", "192.0.2.1": "NOERROR", "127.0.0.1": "NOERROR", "::1": "NOERROR", "2001:db8:2::1": "REFUSED", "198.51.100.1": "REFUSED"} {
		if got := lines(b.from(client, "h.example. A"))[0]; got != want {
			t.Errorf("%s gets %s", client, got)
		}
	}
	s.Ignore = true
	b.Update(s)
	same(t, b.from("2001:db8:2::1", "h.example. A"), "silence")
	if n := b.count("refused"); n != 3 {
		t.Errorf("%d counted as refused", n)
	}
}

func TestWhatIsNoQuestion(t *testing.T) {
	b := newBench(t, settings(), nil)
	for want, change := range map[string]func(*dns.Msg){
		"REFUSED": noRD,
		"NOTIMP":  func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate },
		"FORMERR": func(m *dns.Msg) { m.Question = nil },
		"BADVERS": func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) },
	} {
		m := b.ask("h.example. A", change)
		got := dns.RcodeToString[m.Rcode]
		if m.Rcode == dns.RcodeBadVers {
			got = "BADVERS"
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := m.Pack(); err != nil {
			t.Errorf("%s cannot be sent: %v", want, err)
		}
	}
	for _, typ := range []string{"AXFR", "IXFR"} {
		if m := b.ask("example. " + typ); m.Rcode != dns.RcodeRefused {
			t.Error(typ, lines(m))
		}
	}
	if m := b.ask("version.bind. TXT", func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }); m.Rcode != dns.RcodeRefused {
		t.Error("class CH", lines(m))
	}
	if len(b.zone.asked) != 0 {
		t.Error("asked upstream:", b.zone.asked)
	}
}

func TestAnswersFitTheClient(t *testing.T) {
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("h.example. 60 IN A 192.0.2.%d", i))
	}
	b := newBench(t, settings(), map[string][]string{"h.example. A": many})
	for size, change := range map[int]func(*dns.Msg){
		512:  func(*dns.Msg) {},
		1232: func(m *dns.Msg) { m.SetEdns0(4096, false) },
		900:  func(m *dns.Msg) { m.SetEdns0(900, false) },
	} {
		m := b.ask("h.example. AAAA", change)
		packed, err := m.Pack()
		if err != nil || len(packed) > size || !m.Truncated || len(m.Answer) == 0 {
			t.Errorf("%d bytes for a client that takes %d, truncated %v: %v", len(packed), size, m.Truncated, err)
		}
	}
	m := new(dns.Msg)
	m.SetQuestion("h.example.", dns.TypeAAAA)
	if r := b.Handle(context.Background(), netip.MustParseAddr(member), m, false); r.Truncated || len(r.Answer) != 120 {
		t.Error("over TCP it is not whole")
	}
}

func TestTheQuestionComesBackAsItWasWritten(t *testing.T) {
	b := newBench(t, settings(), map[string][]string{"h.example. A": {"h.example. 60 IN A 192.0.2.6"}})
	if m := b.ask("H.eXample. AAAA"); m.Question[0].Name != "H.eXample." || len(m.Answer) != 1 {
		t.Error(m)
	}
}
