package lac

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // RFC 2865 section 3 knows no other
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Secret is that of the RADIUS server.
const Secret = "bench"

// Ledger is the accounting that the RADIUS server has received.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*Account // by Acct-Session-Id
}

// Account is one session's.
type Account struct {
	Login            string
	Starts, Stops    int
	Packets, Replies uint32 // what the subscriber sent, and got
}

// Accounts returns the accounting so far.
func (g *Ledger) Accounts() map[string]Account {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := map[string]Account{}
	for id, a := range g.accounts {
		m[id] = *a
	}
	return m
}

// ServeRADIUS is a RADIUS server that accepts every login (RFC 2865) and records
// accounting as fast as it arrives, until the socket is closed.
func ServeRADIUS(conn *net.UDPConn) *Ledger {
	g := &Ledger{accounts: map[string]*Account{}}
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if answer := accept(b[:n]); answer != nil {
				if b[0] == accountingRequest {
					g.note(b[20:n])
				}
				_, _ = conn.WriteToUDPAddrPort(answer, from)
			}
		}
	}()
	return g
}

// ListenRADIUS opens its socket.
func ListenRADIUS(at netip.AddrPort) (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("open the RADIUS server: %w", err)
	}
	_ = conn.SetReadBuffer(16 << 20)
	return conn, nil
}

// Codes of RFC 2865 section 3 and RFC 2866 section 3, and the attributes that
// are noted.
const (
	accessRequest     = 1
	accessAccept      = 2
	accountingRequest = 4
	accountingAnswer  = 5

	userName      = 1
	acctStatus    = 40
	acctSessionID = 44
	inputPackets  = 47
	outputPackets = 48
)

func (g *Ledger) note(attributes []byte) {
	var id string
	var a Account
	for len(attributes) >= 2 {
		n := int(attributes[1])
		if n < 2 || n > len(attributes) {
			return
		}
		value := attributes[2:n]
		number := uint32(0)
		if len(value) == 4 {
			number = binary.BigEndian.Uint32(value)
		}
		switch attributes[0] {
		case userName:
			a.Login = string(value)
		case acctSessionID:
			id = string(value)
		case acctStatus:
			if number == 1 {
				a.Starts = 1
			} else if number == 2 {
				a.Stops = 1
			}
		case inputPackets:
			a.Packets = number
		case outputPackets:
			a.Replies = number
		}
		attributes = attributes[n:]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if was := g.accounts[id]; was != nil {
		a.Starts, a.Stops = a.Starts+was.Starts, a.Stops+was.Stops
	}
	g.accounts[id] = &a
}

// signature is the Message-Authenticator of an answer that still carries the
// request's authenticator (RFC 3579 section 3.2).
func signature(answer []byte) []byte {
	mac := hmac.New(md5.New, []byte(Secret))
	mac.Write(answer)
	return mac.Sum(nil)
}

// accept answers an Access-Request or an Accounting-Request.
func accept(b []byte) []byte {
	if len(b) < 20 {
		return nil
	}
	code, attributes := byte(accessAccept), []byte{6, 6, 0, 0, 0, 2, 7, 6, 0, 0, 0, 1} // Framed, PPP
	switch b[0] {
	case accessRequest:
		attributes = append(attributes, make([]byte, 18)...)
		attributes[12], attributes[13] = 80, 18 // Message-Authenticator
	case accountingRequest:
		code, attributes = accountingAnswer, nil
	default:
		return nil
	}
	answer := append([]byte{code, b[1], 0, 0}, b[4:20]...)
	answer = append(answer, attributes...)
	binary.BigEndian.PutUint16(answer[2:], uint16(len(answer)))
	if code == accessAccept {
		copy(answer[len(answer)-16:], signature(answer))
	}
	sum := md5.Sum(append(answer[:len(answer):len(answer)], Secret...)) //nolint:gosec // see above
	copy(answer[4:20], sum[:])
	return answer
}
