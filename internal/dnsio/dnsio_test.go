package dnsio_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"weft/internal/dnsio"
)

// loopback is an address that no other process has to do with: a port that is
// free for UDP there is so for TCP, and stays so.
var loopback = fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>16&63, os.Getpid()>>8&255, os.Getpid()&255)

// server is a resolver on loopback that answers by a function of its own.
type server struct {
	at    netip.AddrPort
	asked atomic.Int64
	conns atomic.Int64
}

func serve(t *testing.T, network string, config *tls.Config, answer func(w dns.ResponseWriter, m *dns.Msg)) *server {
	t.Helper()
	s := &server{}
	d := &dns.Server{Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		s.asked.Add(1)
		answer(w, m)
	})}
	switch network {
	case "udp":
		c, err := net.ListenPacket("udp", loopback+":0")
		if err != nil {
			t.Fatal(err)
		}
		d.PacketConn, s.at = c, netip.MustParseAddrPort(c.LocalAddr().String())
	default:
		l, err := net.Listen("tcp", network)
		if err != nil {
			t.Fatal(err)
		}
		s.at = netip.MustParseAddrPort(l.Addr().String())
		d.Listener = &counted{l, &s.conns}
		if config != nil {
			d.Listener = tls.NewListener(d.Listener, config)
		}
	}
	started := make(chan struct{})
	d.NotifyStartedFunc = func() { close(started) }
	go func() { _ = d.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = d.Shutdown() })
	return s
}

type counted struct {
	net.Listener
	n *atomic.Int64
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.n.Add(1)
	return conn, err
}

func reply(m *dns.Msg, change ...func(*dns.Msg)) *dns.Msg {
	r := new(dns.Msg)
	r.SetReply(m)
	rr, err := dns.NewRR("h.example. 60 IN A 192.0.2.6")
	if err != nil {
		panic(err)
	}
	r.Answer = []dns.RR{rr}
	for _, c := range change {
		c(r)
	}
	return r
}

func plain(w dns.ResponseWriter, m *dns.Msg) { _ = w.WriteMsg(reply(m)) }

func pool(t *testing.T, o dnsio.Options, list ...dnsio.Forwarder) *dnsio.Pool {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	o.ID, o.Bit = dnsio.RandomID, dnsio.RandomBit
	p := dnsio.NewPool(o, list)
	t.Cleanup(p.Close)
	return p
}

func question() *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion("some-long-name.example.", dns.TypeA)
	return m
}

func ask(t *testing.T, p *dnsio.Pool) (*dns.Msg, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.Ask(ctx, question())
}

func wantAnswer(t *testing.T, p *dnsio.Pool) {
	t.Helper()
	r, err := ask(t, p)
	if err != nil || len(r.Answer) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
}

func TestItAsksInMixedCaseAndUnpredictably(t *testing.T) {
	var mu sync.Mutex
	names, ids, ports := map[string]bool{}, map[uint16]bool{}, map[string]bool{}
	s := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		mu.Lock()
		names[m.Question[0].Name], ids[m.Id], ports[w.RemoteAddr().String()] = true, true, true
		mu.Unlock()
		plain(w, m)
	})
	p := pool(t, dnsio.Options{MixCase: true}, dnsio.Forwarder{Transport: dnsio.UDP, Address: s.at})
	for range 40 {
		wantAnswer(t, p)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(names) < 35 || len(ids) < 35 || len(ports) < 30 {
		t.Errorf("%d spellings, %d ids, %d ports in 40 questions", len(names), len(ids), len(ports))
	}
}

func TestForgedAnswersOverUDPAreNotTaken(t *testing.T) {
	s := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		_, _ = w.Write([]byte("rubbish"))
		_ = w.WriteMsg(reply(m, func(r *dns.Msg) { r.Id++; r.Answer = nil }))
		_ = w.WriteMsg(reply(m, func(r *dns.Msg) { r.Question[0].Name = "other.example."; r.Answer = nil }))
		_ = w.WriteMsg(reply(m, func(r *dns.Msg) { r.Question[0].Qtype = dns.TypeAAAA; r.Answer = nil }))
		_ = w.WriteMsg(reply(m, func(r *dns.Msg) { r.Question = nil; r.Answer = nil }))
		_ = w.WriteMsg(reply(m, func(r *dns.Msg) { r.Response = false; r.Answer = nil }))
		plain(w, m)
	})
	wantAnswer(t, pool(t, dnsio.Options{MixCase: true}, dnsio.Forwarder{Transport: dnsio.UDP, Address: s.at}))
}

func TestAnAnswerInOtherCaseOrCutOffIsAskedForOverTCP(t *testing.T) {
	for name, change := range map[string]func(*dns.Msg){
		"other case": func(r *dns.Msg) { r.Question[0].Name = strings.ToLower(r.Question[0].Name); r.Answer = nil },
		"cut off":    func(r *dns.Msg) { r.Truncated = true; r.Answer = nil },
	} {
		udp := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) { _ = w.WriteMsg(reply(m, change)) })
		tcp := serve(t, udp.at.String(), nil, plain)
		wantAnswer(t, pool(t, dnsio.Options{MixCase: true}, dnsio.Forwarder{Transport: dnsio.UDP, Address: udp.at}))
		if tcp.asked.Load() != 1 {
			t.Errorf("%s: TCP was asked %d times", name, tcp.asked.Load())
		}
	}
}

func TestTheNextForwarderIsAskedWhenOneFails(t *testing.T) {
	clock := time.Unix(1e9, 0)
	var broken atomic.Bool
	broken.Store(true)
	first := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		if !broken.Load() {
			plain(w, m)
		}
	})
	second := serve(t, "udp", nil, plain)
	p := pool(t, dnsio.Options{OneTry: time.Second, Now: func() time.Time { return clock }},
		dnsio.Forwarder{Transport: dnsio.UDP, Address: first.at}, dnsio.Forwarder{Transport: dnsio.UDP, Address: second.at})
	wantAnswer(t, p)
	wantAnswer(t, p) // the first rests now
	if a, b := first.asked.Load(), second.asked.Load(); a != 1 || b != 2 {
		t.Errorf("the first was asked %d times, the second %d", a, b)
	}
	if s := p.States(); !s[0].Resting || s[0].Failed != 1 || s[0].Error == "" || s[1].Resting {
		t.Errorf("%+v", s)
	}
	broken.Store(false)
	clock = clock.Add(2 * time.Second)
	wantAnswer(t, p)
	if a := first.asked.Load(); a != 2 {
		t.Errorf("after its rest the first was asked %d times", a)
	}
}

func TestAFailureOfTheFirstIsNotTheLastWord(t *testing.T) {
	refuses := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		_ = w.WriteMsg(reply(m, func(r *dns.Msg) { r.Rcode = dns.RcodeRefused; r.Answer = nil }))
	})
	bogus := serve(t, "udp", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		_ = w.WriteMsg(reply(m, func(r *dns.Msg) {
			r.Rcode, r.Answer = dns.RcodeServerFailure, nil
			r.SetEdns0(1232, false)
			r.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeDNSBogus}}
		}))
	})
	good := serve(t, "udp", nil, plain)
	f := func(s *server) dnsio.Forwarder { return dnsio.Forwarder{Transport: dnsio.UDP, Address: s.at} }
	wantAnswer(t, pool(t, dnsio.Options{}, f(refuses), f(good)))
	if r, err := ask(t, pool(t, dnsio.Options{}, f(refuses))); err != nil || r.Rcode != dns.RcodeRefused {
		t.Errorf("%v, %v", r, err)
	}
	// a bogus answer is not retried where the resolver does not validate
	if r, err := ask(t, pool(t, dnsio.Options{}, f(bogus), f(good))); err != nil || r.Rcode != dns.RcodeServerFailure {
		t.Errorf("%v, %v", r, err)
	}
}

func TestItDoesNotAskItself(t *testing.T) {
	self := serve(t, "udp", nil, plain)
	p := pool(t, dnsio.Options{Loop: func(a netip.AddrPort) bool { return a == self.at }}, dnsio.Forwarder{Transport: dnsio.UDP, Address: self.at})
	if _, err := ask(t, p); err == nil || self.asked.Load() != 0 {
		t.Errorf("asked itself %d times: %v", self.asked.Load(), err)
	}
}

func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

func TestOverTLSTheNameIsVerifiedAndTheConnectionKept(t *testing.T) {
	cert, roots := certificate(t, "dns.example.net")
	s := serve(t, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}}, plain)
	right := dnsio.Forwarder{Transport: dnsio.TLS, Address: s.at, Name: "dns.example.net"}
	p := pool(t, dnsio.Options{Roots: roots}, right)
	for range 5 {
		wantAnswer(t, p)
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections for 5 questions", n)
	}
	asked := s.asked.Load()
	wrong := right
	wrong.Name = "other.example.net"
	if r, err := ask(t, pool(t, dnsio.Options{Roots: roots}, wrong)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with a wrong name: %v, %v", r, err)
	}
	if r, err := ask(t, pool(t, dnsio.Options{Roots: x509.NewCertPool()}, right)); err == nil {
		t.Errorf("with an unknown authority: %v", r)
	}
	if s.asked.Load() != asked {
		t.Error("the query was sent to an unknown server")
	}
}

func TestAConnectionThatWasClosedIsMadeAnew(t *testing.T) {
	s := serve(t, "127.0.0.1:0", nil, func(w dns.ResponseWriter, m *dns.Msg) {
		plain(w, m)
		_ = w.Close()
	})
	p := pool(t, dnsio.Options{}, dnsio.Forwarder{Transport: dnsio.TCP, Address: s.at})
	for range 4 {
		wantAnswer(t, p)
	}
}

func TestAReloadKeepsSocketsThatStay(t *testing.T) {
	free := func() netip.AddrPort {
		l, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return netip.MustParseAddrPort(l.Addr().String())
	}
	a, b := free(), free()
	s := dnsio.NewServer(func(_ context.Context, client netip.Addr, m *dns.Msg, udp bool) *dns.Msg {
		if !client.IsLoopback() {
			t.Error("the client is", client)
		}
		return reply(m)
	}, func(a netip.Addr) bool { return a.IsLoopback() })
	defer s.Close()
	ctx := context.Background()
	if err := s.Set(ctx, []netip.AddrPort{a}); err != nil {
		t.Fatal(err)
	}
	conn, err := dns.Dial("tcp", a.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	exchange := func() error {
		if err := conn.WriteMsg(question()); err != nil {
			return err
		}
		_, err := conn.ReadMsg()
		return err
	}
	if err := exchange(); err != nil {
		t.Fatal(err)
	}
	// a new address takes effect; an address that cannot be opened gives an error and affects no other
	bad := netip.MustParseAddrPort("[fe80::1%no-such-device]:53")
	if err := s.Set(ctx, []netip.AddrPort{bad, a, b}); err == nil || !strings.Contains(err.Error(), "no-such-device") {
		t.Error(err)
	}
	if err := exchange(); err != nil {
		t.Error("the connection did not survive:", err)
	}
	for _, at := range []netip.AddrPort{a, b} {
		wantAnswer(t, pool(t, dnsio.Options{}, dnsio.Forwarder{Transport: dnsio.UDP, Address: at}))
	}
	if err := s.Set(ctx, []netip.AddrPort{b}); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", a.String()); err == nil {
		c.Close()
		t.Error("still listening where it should not")
	}
}
