package aaa

import (
	"context"
	"io"
	stdlog "log"
	"net"
	"net/netip"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3576"

	"weft/internal/task"
)

// DynamicPort is where orders come (RFC 5176 section 2.3).
const DynamicPort = 3799

// Issuer is a client that may send CoA and Disconnect requests.
type Issuer struct {
	Client   netip.Prefix
	Secret   string
	Unsigned bool // it cannot sign: orders without Message-Authenticator are taken
}

// Orders carries out what is asked for; it gives how many sessions it was about.
type Orders interface {
	Disconnect(Match) int
	Change(Match, Change) int
}

// NAS is what this router is to those who give orders: an order that names
// another one is not for it (RFC 5176 section 3).
type NAS struct {
	Names     []string
	Addresses []netip.Addr
}

// Dynamic takes orders at one address (RFC 5176).
type Dynamic struct {
	conn   net.PacketConn
	server radius.PacketServer
	guard  task.Guard
}

// ListenDynamic takes orders until Close.
func ListenDynamic(ctx context.Context, at netip.Addr, issuers func() []Issuer, self func() NAS, orders Orders) (*Dynamic, error) {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", netip.AddrPortFrom(at, DynamicPort).String())
	if err != nil {
		return nil, err
	}
	d := &Dynamic{conn: conn}
	var before answered
	d.server = radius.PacketServer{
		SecretSource: secrets(issuers),
		Handler: radius.HandlerFunc(func(w radius.ResponseWriter, r *radius.Request) {
			// the library runs this in a goroutine of its own
			d.guard.Do(r.Code.String()+" of RADIUS", nil, func() {
				if i, ok := secrets(issuers).of(r.RemoteAddr); ok {
					handle(w, r, self(), orders, i.Unsigned, &before)
				}
			})
		}),
		ErrorLog: stdlog.New(io.Discard, "", 0), // what strangers send is no news
	}
	task.Again("RADIUS orders at "+at.String(), func() { _ = d.server.Serve(conn) }) // ends when the socket is closed
	return d, nil
}

// Fault describes the last order at which weft panicked; nil if there was none
// for long.
func (d *Dynamic) Fault() error { return d.guard.Fault() }

// Close ends it.
func (d *Dynamic) Close() error { return d.conn.Close() }

// secrets gives the shared secret of a client; other senders get no answer.
type secrets func() []Issuer

func (s secrets) RADIUSSecret(_ context.Context, from net.Addr) ([]byte, error) {
	i, _ := s.of(from)
	return []byte(i.Secret), nil
}

func (s secrets) of(from net.Addr) (Issuer, bool) {
	udp, ok := from.(*net.UDPAddr)
	if !ok {
		return Issuer{}, false
	}
	a := udp.AddrPort().Addr().Unmap()
	for _, i := range s() {
		if i.Client.Contains(a) {
			return i, true
		}
	}
	return Issuer{}, false
}

func handle(w radius.ResponseWriter, r *radius.Request, self NAS, orders Orders, unsigned bool, before *answered) {
	ack, nak := radius.CodeDisconnectACK, radius.CodeDisconnectNAK
	if r.Code == radius.CodeCoARequest {
		ack, nak = radius.CodeCoAACK, radius.CodeCoANAK
	} else if r.Code != radius.CodeDisconnectRequest {
		return
	}
	if stale(r.Packet) || badlySigned(r.Packet, unsigned) {
		return // silently discarded (RFC 5176 section 3)
	}
	key := keyOf(r)
	if p := before.find(key, time.Now()); p != nil {
		_ = w.Write(p)
		return
	}
	why := carryOut(r.Packet, self, orders)
	p := r.Response(ack)
	if why != 0 {
		p = r.Response(nak)
		_ = rfc3576.ErrorCause_Set(p, why) // a number always fits
	}
	for _, a := range r.Packet.Attributes {
		if a.Type == rfc2865.ProxyState_Type { // section 3.1: as they came
			p.Add(a.Type, a.Attribute)
		}
	}
	if sign(p) == nil {
		before.add(key, p, time.Now())
		_ = w.Write(p) // lost, it is asked for again
	}
}

// window is how far a request's time may be from ours (section 6.3).
const window = 5 * time.Minute

func stale(p *radius.Packet) bool {
	at, err := rfc2869.EventTimestamp_Lookup(p)
	return err == nil && time.Since(at).Abs() > window
}

// badlySigned: RFC 5176 section 3.4 leaves the Message-Authenticator to the
// sender, but the authenticator of a request is plain MD5, which is not enough
// (CVE-2024-3596). Who cannot sign is excused by name; what is there has to be
// right in any case.
func badlySigned(p *radius.Packet, unsigned bool) bool {
	if _, has := p.Lookup(rfc2869.MessageAuthenticator_Type); !has {
		return !unsigned
	}
	return !authentic(p, [16]byte{})
}
