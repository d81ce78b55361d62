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

	"weft/internal/task"
)

// An account is tried until a server takes it, however long servers are away. Only one to
// which servers object, while they take others, is given up after accountFor.
const (
	accountEvery = 10 * time.Second
	accountFor   = 72 * time.Hour
)

// Account tells what a session has carried, as soon as a server takes it, until
// ctx ends; it does not wait for that.
func (c *Client) Account(ctx context.Context, one *Record) {
	c.begin(ctx)
	c.put(one)
}

func (c *Client) begin(ctx context.Context) {
	b := &c.queue
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.running {
		b.running = true
		b.tasks.Again("accounting of "+c.nas, func() { c.sendQueue(ctx) })
	}
}

func (c *Client) wakeQueue() {
	select {
	case c.queue.events <- struct{}{}:
	default:
	}
}

// sendQueue sends accounting records, many at a time. While no server answers, it tries
// one record at intervals, and the others wait.
func (c *Client) sendQueue(ctx context.Context) {
	room := make(chan struct{}, AtATime)
	silent := make(chan struct{}, AtATime)
	for {
		p, one := c.queue.take()
		if one == nil {
			if c.queue.handedOver() {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-c.queue.events:
			}
			continue
		}
		select {
		case <-silent:
			if !c.reportWhenReceived(ctx, p, one) {
				return
			}
			for len(silent) > 0 {
				<-silent
			}
			continue
		case room <- struct{}{}:
		case <-ctx.Done():
			c.queue.landed(p, one, false, false, c.wakeQueue)
			return
		}
		c.queue.tasks.Go(func() {
			defer func() { <-room }()
			if c.try(ctx, p, one) == receivedNothing {
				select {
				case silent <- struct{}{}:
				default:
				}
			}
			c.wakeQueue()
		})
	}
}

// outcome of an attempt to tell an account.
type outcome uint8

const (
	taken           outcome = iota
	receivedNothing         // of any server
	objected                // servers take others, and not this one
)

// try tells an account, and notes what became of it.
func (c *Client) try(ctx context.Context, p *sessionRecords, one *Record) outcome {
	err := c.report(ctx, one)
	old := ctx.Err() == nil && time.Since(one.Account.At) > accountFor
	o := c.queue.landed(p, one, err == nil, old, c.wakeQueue)
	if o == objected && old {
		c.queue.mu.Lock()
		c.lose(one, err)
		c.queue.mu.Unlock()
	}
	return o
}

// reportWhenReceived tries one account after another, with pauses, until one is taken;
// false: ctx ended. One that a server does not take, whatever its reason, holds up
// no other session's: it waits behind them.
func (c *Client) reportWhenReceived(ctx context.Context, p *sessionRecords, one *Record) bool {
	for {
		select {
		case <-ctx.Done():
			c.queue.landed(p, one, false, false, c.wakeQueue)
			return false
		case <-time.After(c.pause):
		}
		if c.try(ctx, p, one) == taken {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if p, one = c.queue.take(); one == nil {
			return true
		}
	}
}

// Begun says, as often as announceTimes, that no session of before goes on, until
// a server has heard it. A server that has none open may not answer (FreeRADIUS
// with nothing but SQL does not): it is not taken for silent because of that.
func (c *Client) Begun(ctx context.Context, a Accounting) {
	a.Status = StatusOn
	task.Go(func() {
		for range announceTimes {
			for _, s := range c.servers {
				p, err := c.accountingRequest([]byte(s.Secret), &a, Traffic{})
				if err == nil {
					_, err = c.ask(ctx, s, s.Accounting, p)
				}
				if err == nil || ctx.Err() != nil {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(c.pause):
			}
		}
	})
}

const announceTimes = 6

// sayLost is how often it is said that accounts are lost: there may be thousands.
const sayLost = time.Minute

var errFull = fmt.Errorf("the queue is full with %d records, and this is the oldest", accountsMost)

// lose counts an account that is given up, and logs it. The queue is locked.
func (c *Client) lose(one *Record, err error) {
	if one.Account.Status == StatusInterim {
		return // a later one has said more, or will
	}
	b := &c.queue
	b.lost++
	b.unsaid++
	b.lostAt = time.Now()
	if time.Since(b.saidAt) < sayLost {
		return
	}
	c.log.Error("accounting records were lost", "records", b.unsaid, "login", one.Account.Login, "session", one.Account.ID, "error", err)
	b.saidAt, b.unsaid = time.Now(), 0
}

// tell sends one account.
func (c *Client) report(ctx context.Context, one *Record) error {
	answer, _, err := c.exchange(ctx, c.reporting, func(s Server) netip.AddrPort { return s.Accounting }, func(secret []byte) (*radius.Packet, error) {
		return c.accountingRequest(secret, one.Account, one.Total)
	})
	if err == nil && answer.Code != radius.CodeAccountingResponse {
		err = fmt.Errorf("account session %s: the answer is a %s", one.Account.ID, answer.Code)
	}
	return err
}

func (c *Client) accountingRequest(secret []byte, a *Accounting, total Traffic) (*radius.Packet, error) {
	p := radius.New(radius.CodeAccountingRequest, secret)
	if a.Status == StatusOn {
		return p, c.begun(p, a)
	}
	status := map[Status]rfc2866.AcctStatusType{
		StatusStart: rfc2866.AcctStatusType_Value_Start, StatusInterim: rfc2866.AcctStatusType_Value_InterimUpdate,
		StatusStop: rfc2866.AcctStatusType_Value_Stop,
	}[a.Status]
	by := rfc2866.AcctAuthentic_Value_RADIUS
	if a.Local {
		by = rfc2866.AcctAuthentic_Value_Local
	}
	now := time.Now()
	err := errors.Join(
		rfc2866.AcctStatusType_Set(p, status),
		rfc2866.AcctSessionID_SetString(p, a.ID),
		rfc2865.UserName_SetString(p, a.Login),
		rfc2866.AcctAuthentic_Set(p, by),
		rfc2869.EventTimestamp_Set(p, happened(a.At, now)),
		rfc2867.AcctTunnelConnection_SetString(p, strconv.Itoa(int(a.Call.Serial))),
		c.describe(p, a.Session, a.Call),
		assigned(p, a.Assigned),
	)
	if late := now.Sub(a.At); late >= time.Second {
		err = errors.Join(err, rfc2866.AcctDelayTime_Set(p, rfc2866.AcctDelayTime(late/time.Second)))
	}
	if a.Status != StatusStart {
		err = errors.Join(err,
			rfc2866.AcctSessionTime_Set(p, rfc2866.AcctSessionTime(max(0, a.At.Sub(a.Started))/time.Second)),
			rfc2866.AcctInputOctets_Set(p, rfc2866.AcctInputOctets(uint32(total.InputOctets))),
			rfc2866.AcctOutputOctets_Set(p, rfc2866.AcctOutputOctets(uint32(total.OutputOctets))),
			rfc2869.AcctInputGigawords_Set(p, rfc2869.AcctInputGigawords(total.InputOctets>>32)),
			rfc2869.AcctOutputGigawords_Set(p, rfc2869.AcctOutputGigawords(total.OutputOctets>>32)),
			rfc2866.AcctInputPackets_Set(p, rfc2866.AcctInputPackets(uint32(total.InputPackets))),
			rfc2866.AcctOutputPackets_Set(p, rfc2866.AcctOutputPackets(uint32(total.OutputPackets))),
		)
	}
	if a.Status == StatusStop {
		err = errors.Join(err, rfc2866.AcctTerminateCause_Set(p, rfc2866.AcctTerminateCause(a.Cause)))
	}
	if err != nil {
		return nil, fmt.Errorf("write Accounting-Request: %w", err)
	}
	return p, nil
}

// happened is when something was, by the wall clock of now: it may have been set
// since, as on a machine without a battery for its clock.
func happened(at, now time.Time) time.Time { return now.Round(0).Add(-now.Sub(at)) }

// begun says that no session of before goes on (RFC 2866 section 5.1,
// Accounting-On): servers then end those that they still have open.
func (c *Client) begun(p *radius.Packet, a *Accounting) error {
	err := errors.Join(
		rfc2866.AcctStatusType_Set(p, rfc2866.AcctStatusType_Value_AccountingOn), rfc2866.AcctSessionID_SetString(p, a.ID),
		rfc2869.EventTimestamp_Set(p, a.At), rfc2865.NASIdentifier_SetString(p, c.nas), router(p, a.Call.LNS.Addr()),
	)
	if err != nil {
		return fmt.Errorf("write Accounting-On: %w", err)
	}
	return nil
}

func assigned(p *radius.Packet, f Assigned) error {
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
	if f.InterfaceID != ([8]byte{}) {
		err = errors.Join(err, rfc3162.FramedInterfaceID_Set(p, f.InterfaceID[:]))
	}
	for _, c := range f.Class {
		err = errors.Join(err, rfc2865.Class_Add(p, c))
	}
	return err
}
