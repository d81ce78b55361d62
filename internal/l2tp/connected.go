package l2tp

import (
	"bytes"
	"cmp"

	"weft/wire/l2tp"
)

// Connected is what a LAC says when a call stands (ICCN, RFC 2661 section 6.8).
type Connected struct {
	Tx, Rx     uint32 // bit/s; 0: not known
	Group      string // Private Group ID
	Sequencing bool   // data has to be numbered
	LCP        *ProxyLCP
	Auth       *ProxyAuth
}

// ProxyLCP is what the LAC and the subscriber have agreed on (section 4.4.5).
type ProxyLCP struct {
	Initial        []byte // the subscriber's first Configure-Request; nil: not known
	Sent, Received []byte // the last ones
}

// ProxyAuth is how the subscriber has authenticated with the LAC (section 4.4.5).
type ProxyAuth struct {
	Type      uint16
	Name      []byte
	ID        uint8
	Challenge []byte
	Response  []byte // nil: none
}

// Types of ProxyAuth.
const (
	ProxyCHAP = 2
	ProxyPAP  = 3
	ProxyNone = 4
)

// unknownSpeed is the speed of a line that is not known.
const unknownSpeed = 1_000_000_000

// message returns the ICCN.
func (c Connected) message() *l2tp.Message {
	m := l2tp.New(l2tp.ICCN).AddUint32(l2tp.TxConnectSpeed, cmp.Or(c.Tx, unknownSpeed)).AddUint32(l2tp.FramingType, 1)
	if c.Rx != 0 {
		m.Option(l2tp.RxConnectSpeed, []byte{byte(c.Rx >> 24), byte(c.Rx >> 16), byte(c.Rx >> 8), byte(c.Rx)})
	}
	if c.Sequencing {
		m.Add(l2tp.SequencingRequired, nil)
	}
	if c.Group != "" {
		m.Option(l2tp.PrivateGroupID, []byte(c.Group))
	}
	if p := c.LCP; p != nil {
		if p.Initial != nil {
			m.Option(l2tp.InitialReceivedLCP, p.Initial)
		}
		m.Option(l2tp.LastSentLCP, p.Sent).Option(l2tp.LastReceivedLCP, p.Received)
	}
	if a := c.Auth; a != nil {
		m.Option(l2tp.ProxyAuthenType, []byte{byte(a.Type >> 8), byte(a.Type)})
		if a.Type != ProxyNone {
			m.Option(l2tp.ProxyAuthenName, a.Name).Option(l2tp.ProxyAuthenID, []byte{0, a.ID})
		}
		if a.Type == ProxyCHAP {
			m.Option(l2tp.ProxyAuthenChallenge, a.Challenge)
		}
		if a.Response != nil {
			m.Option(l2tp.ProxyAuthenResponse, a.Response)
		}
	}
	return m
}

// parseConnected reads an ICCN.
func parseConnected(m *l2tp.Message) Connected {
	c := Connected{Group: m.Text(l2tp.PrivateGroupID), Sequencing: m.Has(l2tp.SequencingRequired)}
	c.Tx, _ = m.Uint32(l2tp.TxConnectSpeed)
	c.Rx, _ = m.Uint32(l2tp.RxConnectSpeed)
	value := func(a l2tp.Attribute) []byte { // the buffer of the message is used again
		v, _ := m.Get(a)
		return bytes.Clone(v)
	}
	if m.Has(l2tp.LastSentLCP) && m.Has(l2tp.LastReceivedLCP) {
		c.LCP = &ProxyLCP{Initial: value(l2tp.InitialReceivedLCP), Sent: value(l2tp.LastSentLCP), Received: value(l2tp.LastReceivedLCP)}
	}
	kind, _ := m.Uint16(l2tp.ProxyAuthenType)
	id, _ := m.Uint16(l2tp.ProxyAuthenID)
	c.Auth = &ProxyAuth{Type: kind, Name: value(l2tp.ProxyAuthenName), ID: uint8(id), Challenge: value(l2tp.ProxyAuthenChallenge)}
	if v, ok := m.Get(l2tp.ProxyAuthenResponse); ok {
		c.Auth.Response = append([]byte{}, v...)
	}
	return c
}
