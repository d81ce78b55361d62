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
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3576"
	"layeh.com/radius/vendors/wispr"

	"weft/internal/feature/access"
)

// DynamicPort is where orders come (RFC 5176 section 2.3).
const DynamicPort = 3799

// Issuer is somebody who may give orders.
type Issuer struct {
	Client netip.Prefix
	Secret string
}

// Orders carries out what is asked for; it gives how many sessions it was about.
type Orders interface {
	Disconnect(access.Match) int
	Change(access.Match, access.Change) int
}

// Dynamic takes orders at one address (RFC 5176).
type Dynamic struct {
	conn   net.PacketConn
	server radius.PacketServer
}

// ListenDynamic takes orders until Close.
func ListenDynamic(ctx context.Context, at netip.Addr, issuers func() []Issuer, orders Orders) (*Dynamic, error) {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", netip.AddrPortFrom(at, DynamicPort).String())
	if err != nil {
		return nil, err
	}
	d := &Dynamic{conn: conn}
	d.server = radius.PacketServer{
		SecretSource: secrets(issuers),
		Handler:      radius.HandlerFunc(func(w radius.ResponseWriter, r *radius.Request) { handle(w, r, orders) }),
		ErrorLog:     stdlog.New(io.Discard, "", 0), // what strangers send is no news
	}
	go func() { _ = d.server.Serve(conn) }() // ends when the socket is closed
	return d, nil
}

// Close ends it.
func (d *Dynamic) Close() error { return d.conn.Close() }

// secrets gives the secret of who asks; nobody else is answered.
type secrets func() []Issuer

func (s secrets) RADIUSSecret(_ context.Context, from net.Addr) ([]byte, error) {
	udp, ok := from.(*net.UDPAddr)
	if !ok {
		return nil, nil
	}
	a := udp.AddrPort().Addr().Unmap()
	for _, i := range s() {
		if i.Client.Contains(a) {
			return []byte(i.Secret), nil
		}
	}
	return nil, nil
}

func handle(w radius.ResponseWriter, r *radius.Request, orders Orders) {
	ack, nak := radius.CodeDisconnectACK, radius.CodeDisconnectNAK
	if r.Code == radius.CodeCoARequest {
		ack, nak = radius.CodeCoAACK, radius.CodeCoANAK
	} else if r.Code != radius.CodeDisconnectRequest {
		return
	}
	refuse := func(why rfc3576.ErrorCause) {
		p := r.Response(nak)
		_ = rfc3576.ErrorCause_Set(p, why) // a number always fits
		_ = w.Write(p)                     // lost, it is asked for again
	}
	if stale(r.Packet) || badlySigned(r.Packet) {
		return // silently discarded (RFC 5176 section 3)
	}
	m := matchOf(r.Packet)
	if m.Empty() {
		refuse(rfc3576.ErrorCause_Value_MissingAttribute)
		return
	}
	done := 0
	if r.Code == radius.CodeDisconnectRequest {
		done = orders.Disconnect(m)
	} else {
		done = orders.Change(m, changeOf(r.Packet))
	}
	if done == 0 {
		refuse(rfc3576.ErrorCause_Value_SessionContextNotFound)
		return
	}
	_ = w.Write(r.Response(ack))
}

// window is how far a request's time may be from ours (section 6.3).
const window = 5 * time.Minute

func stale(p *radius.Packet) bool {
	at, err := rfc2869.EventTimestamp_Lookup(p)
	return err == nil && time.Since(at).Abs() > window
}

// badlySigned: the authenticator of a request has the secret in it already; a
// Message-Authenticator need not be there, but if it is it must be right.
func badlySigned(p *radius.Packet) bool {
	_, has := p.Lookup(rfc2869.MessageAuthenticator_Type)
	return has && !authentic(p, [16]byte{})
}

func matchOf(p *radius.Packet) access.Match {
	m := access.Match{ID: rfc2866.AcctSessionID_GetString(p), Login: rfc2865.UserName_GetString(p)}
	if a, ok := address(rfc2865.FramedIPAddress_Get(p)); ok {
		m.Address = a
	}
	if n, err := rfc2865.NASPort_Lookup(p); err == nil && n < 1<<16 {
		m.Session = uint16(n)
	}
	return m
}

func changeOf(p *radius.Packet) access.Change {
	var c access.Change
	if n, err := wispr.WISPrBandwidthMaxUp_Lookup(p); err == nil {
		v := uint64(n)
		c.Up = &v
	}
	if n, err := wispr.WISPrBandwidthMaxDown_Lookup(p); err == nil {
		v := uint64(n)
		c.Down = &v
	}
	if text, err := rfc2865.FilterID_LookupString(p); err == nil {
		v := text == GardenFilter
		c.Garden = &v
	}
	if n, err := rfc2865.SessionTimeout_Lookup(p); err == nil {
		v := time.Duration(n) * time.Second
		c.SessionTimeout = &v
	}
	if n, err := rfc2865.IdleTimeout_Lookup(p); err == nil {
		v := time.Duration(n) * time.Second
		c.IdleTimeout = &v
	}
	return c
}
