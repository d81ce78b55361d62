package lnsrun

import (
	"context"

	"weft/internal/aaa"
	"weft/internal/feature/lns"
	"weft/internal/subscriber"
	"weft/internal/task"
)

// internal/aaa has types of its own for RADIUS. The functions of this file convert
// between them and the types of internal/subscriber.

// accessRequest is the Access-Request for a login.
func accessRequest(q subscriber.AuthRequest) aaa.Request {
	return aaa.Request{
		Session: q.Session, Call: aaa.Call(q.Call),
		Credentials: aaa.Credentials{
			Login: q.Login, Method: aaa.Method(q.Method), Password: q.Password, ID: q.ID, Challenge: q.Challenge, Response: q.Response,
		},
	}
}

// replyOf is the reply to a login in an Access-Accept or Access-Reject.
func replyOf(r aaa.Reply) subscriber.AuthReply {
	return subscriber.AuthReply{Accept: r.Accept, Text: r.Text, Login: r.Login, Profile: profileOf(r.Profile)}
}

func profileOf(p aaa.Profile) subscriber.Profile {
	out := subscriber.Profile{
		IPv4: p.IPv4, Pool: p.Pool, IPv6: p.IPv6, Prefix: p.Prefix, Delegated: p.Delegated, InterfaceID: p.InterfaceID,
		Routes: p.Routes, Advertised: p.Advertised, DNS: p.DNS, Up: p.RateUp, Down: p.RateDown, WalledGarden: p.WalledGarden,
		SessionTimeout: p.SessionTimeout, IdleTimeout: p.IdleTimeout, Interim: p.Interim, Class: p.Class,
		SwitchTo: subscriber.SwitchTarget{Server: p.Tunnel.Server, Secret: p.Tunnel.Secret, Name: p.Tunnel.Name},
	}
	if p.Pools6 != (aaa.Pools6{}) {
		out.Pools6 = &subscriber.Pools6{Prefix: p.Pools6.Prefix, Delegated: p.Pools6.Delegated, Address: p.Pools6.Address}
	}
	return out
}

// comparePassword authenticates a subscriber with the bcrypt hash of its password.
func comparePassword(q subscriber.AuthRequest) subscriber.AuthReply {
	if !aaa.PasswordMatches(q.Hash, q.Password) {
		return subscriber.AuthReply{Text: "Login incorrect"}
	}
	return subscriber.AuthReply{Accept: true, Text: "Welcome", Profile: *q.Profile}
}

// accountingRequest is the Accounting-Request for an event of a session.
func accountingRequest(a *subscriber.Account) *aaa.Accounting {
	status := map[subscriber.AccountKind]aaa.Status{
		subscriber.AccountStart: aaa.StatusStart, subscriber.AccountInterim: aaa.StatusInterim, subscriber.AccountStop: aaa.StatusStop, subscriber.AccountOn: aaa.StatusOn,
	}[a.Kind]
	p := a.Profile
	return &aaa.Accounting{
		Status: status, Section: a.LNS, Session: a.Session, ID: a.ID, Login: a.Login, Local: a.Local, Call: aaa.Call(a.Call),
		Assigned: aaa.Assigned{IPv4: p.IPv4, IPv6: p.IPv6, Prefix: p.Prefix, Delegated: p.Delegated, InterfaceID: p.InterfaceID, Class: p.Class},
		Started:  a.Started, At: a.At, Cause: terminateCause(a.Reason),
	}
}

// terminateCause is the Acct-Terminate-Cause (RFC 2866 section 5.10) of an end.
func terminateCause(r subscriber.Reason) aaa.Cause {
	switch r {
	case subscriber.ReasonRequested, subscriber.ReasonPeer:
		return aaa.CauseUserRequest
	case subscriber.ReasonLost, subscriber.ReasonTunnel:
		return aaa.CauseLostCarrier
	case subscriber.ReasonSession:
		return aaa.CauseSessionTimeout
	case subscriber.ReasonIdle:
		return aaa.CauseIdleTimeout
	case subscriber.ReasonAdmin:
		return aaa.CauseAdminReset
	case subscriber.ReasonReplaced:
		return aaa.CausePortPreempted
	}
	return aaa.CauseNASError
}

// traffic is the sum of the datapath's counters and the slow path's.
func traffic(t subscriber.Traffic) aaa.Traffic {
	return aaa.Traffic{InputPackets: t.UpPackets, InputOctets: t.UpBytes, OutputPackets: t.DownPackets, OutputOctets: t.DownBytes}
}

// radiusOrders carries out CoA and Disconnect requests (RFC 5176).
type radiusOrders struct {
	ctx context.Context
	box task.Mailbox[*subscribers]
}

func (o radiusOrders) Disconnect(m aaa.Match) int {
	return get(o.ctx, o.box, func(s *subscribers) int { return s.disconnect(matchOf(m)) })
}

func (o radiusOrders) Change(m aaa.Match, c aaa.Change) int {
	change := subscriber.Change{
		Up: c.RateUp, Down: c.RateDown, WalledGarden: c.WalledGarden, SessionTimeout: c.SessionTimeout, IdleTimeout: c.IdleTimeout, Interim: c.Interim,
	}
	return get(o.ctx, o.box, func(s *subscribers) int { return s.change(matchOf(m), change) })
}

func matchOf(m aaa.Match) subscriber.Match {
	return subscriber.Match{
		ID: m.ID, Login: m.Login, Address: m.Address, Session: m.Session, IPv6: m.IPv6, Prefix: m.Prefix, Delegated: m.Delegated,
		InterfaceID: m.InterfaceID, Calling: m.Calling, Called: m.Called,
	}
}

// radiusServer is the row of a RADIUS server in weft show radius.
func radiusServer(section string, n aaa.ServerStats) lns.RADIUSServer {
	return lns.RADIUSServer{
		LNS: section, Server: n.Server, Quiet: n.Silent, Answered: n.Answered, Silent: n.Unanswered, Forged: n.Forged,
		Reported: n.Accounted, Unreported: n.AccountsUnanswered, Waiting: n.Waiting, Lost: n.Lost,
	}
}
