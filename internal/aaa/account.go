package aaa

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2867"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc3162"
	"layeh.com/radius/rfc4818"
	"layeh.com/radius/rfc6911"

	"weft/internal/feature/access"
)

// Accounting is tried for a while: a server that is being restarted should not
// lose the end of a session.
const (
	accountEvery = 10 * time.Second
	accountFor   = 30 * time.Minute
)

// Account tells what a session has carried, and does not rest until a server
// has taken it, or too much time has passed.
func (c *Client) Account(ctx context.Context, a access.Account, total access.Traffic) error {
	for {
		answer, _, err := c.exchange(ctx, func(s Server) netip.AddrPort { return s.Accounting }, func(secret []byte) (*radius.Packet, error) {
			return c.record(secret, a, total)
		})
		switch {
		case err == nil && answer.Code == radius.CodeAccountingResponse:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(a.At) > accountFor:
			return fmt.Errorf("account session %s: %w", a.ID, ErrSilent)
		case a.Kind == access.AccountInterim:
			return err // the next one says more
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(accountEvery):
		}
	}
}

func (c *Client) record(secret []byte, a access.Account, total access.Traffic) (*radius.Packet, error) {
	p := radius.New(radius.CodeAccountingRequest, secret)
	status := map[access.AccountKind]rfc2866.AcctStatusType{
		access.AccountStart: rfc2866.AcctStatusType_Value_Start, access.AccountInterim: rfc2866.AcctStatusType_Value_InterimUpdate,
		access.AccountStop: rfc2866.AcctStatusType_Value_Stop,
	}[a.Kind]
	err := errors.Join(
		rfc2866.AcctStatusType_Set(p, status),
		rfc2866.AcctSessionID_SetString(p, a.ID),
		rfc2865.UserName_SetString(p, a.Login),
		rfc2866.AcctAuthentic_Set(p, rfc2866.AcctAuthentic_Value_RADIUS),
		rfc2869.EventTimestamp_Set(p, a.At),
		rfc2867.AcctTunnelConnection_SetString(p, strconv.Itoa(int(a.Call.Serial))),
		c.describe(p, a.Session, a.Call),
		assigned(p, a.Profile),
	)
	if late := time.Since(a.At); late >= time.Second {
		err = errors.Join(err, rfc2866.AcctDelayTime_Set(p, rfc2866.AcctDelayTime(late/time.Second)))
	}
	if a.Kind != access.AccountStart {
		err = errors.Join(err,
			rfc2866.AcctSessionTime_Set(p, rfc2866.AcctSessionTime(a.At.Sub(a.Started)/time.Second)),
			rfc2866.AcctInputOctets_Set(p, rfc2866.AcctInputOctets(uint32(total.UpBytes))),
			rfc2866.AcctOutputOctets_Set(p, rfc2866.AcctOutputOctets(uint32(total.DownBytes))),
			rfc2869.AcctInputGigawords_Set(p, rfc2869.AcctInputGigawords(total.UpBytes>>32)),
			rfc2869.AcctOutputGigawords_Set(p, rfc2869.AcctOutputGigawords(total.DownBytes>>32)),
			rfc2866.AcctInputPackets_Set(p, rfc2866.AcctInputPackets(uint32(total.UpPackets))),
			rfc2866.AcctOutputPackets_Set(p, rfc2866.AcctOutputPackets(uint32(total.DownPackets))),
		)
	}
	if a.Kind == access.AccountStop {
		err = errors.Join(err, rfc2866.AcctTerminateCause_Set(p, cause(a.Reason)))
	}
	if err != nil {
		return nil, fmt.Errorf("write Accounting-Request: %w", err)
	}
	return p, nil
}

func assigned(p *radius.Packet, f access.Profile) error {
	var err error
	if f.IPv4.IsValid() {
		err = errors.Join(err, rfc2865.FramedIPAddress_Set(p, f.IPv4.AsSlice()))
	}
	network := func(n netip.Prefix) *net.IPNet {
		return &net.IPNet{IP: n.Addr().AsSlice(), Mask: net.CIDRMask(n.Bits(), 128)}
	}
	if f.Prefix.IsValid() {
		err = errors.Join(err, rfc3162.FramedIPv6Prefix_Set(p, network(f.Prefix)))
	}
	if f.Delegated.IsValid() {
		err = errors.Join(err, rfc4818.DelegatedIPv6Prefix_Set(p, network(f.Delegated)))
	}
	if f.IPv6.IsValid() {
		err = errors.Join(err, rfc6911.FramedIPv6Address_Set(p, f.IPv6.AsSlice()))
	}
	for _, c := range f.Class {
		err = errors.Join(err, rfc2865.Class_Add(p, c))
	}
	return err
}

// cause is Acct-Terminate-Cause (RFC 2866 section 5.10).
func cause(r access.Reason) rfc2866.AcctTerminateCause {
	switch r {
	case access.ReasonRequested, access.ReasonPeer:
		return rfc2866.AcctTerminateCause_Value_UserRequest
	case access.ReasonLost, access.ReasonTunnel:
		return rfc2866.AcctTerminateCause_Value_LostCarrier
	case access.ReasonSession:
		return rfc2866.AcctTerminateCause_Value_SessionTimeout
	case access.ReasonIdle:
		return rfc2866.AcctTerminateCause_Value_IdleTimeout
	case access.ReasonAdmin:
		return rfc2866.AcctTerminateCause_Value_AdminReset
	case access.ReasonReplaced:
		return rfc2866.AcctTerminateCause_Value_PortPreempted
	}
	return rfc2866.AcctTerminateCause_Value_NASError
}
