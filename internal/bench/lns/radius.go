package lns

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // RFC 2865 section 3 knows no other
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"weft/internal/lab/netspace"
)

const secret = "bench"

// welcome is a RADIUS server that lets everybody in (RFC 2865), as fast as it
// is asked: it is part of the road, not of what is measured.
func welcome(in *netspace.Space, at netip.AddrPort) (func() error, error) {
	var conn *net.UDPConn
	err := in.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the RADIUS server: %w", err)
	}
	_ = conn.SetReadBuffer(16 << 20)
	go func() {
		b := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if answer := accept(b[:n]); answer != nil {
				_, _ = conn.WriteToUDPAddrPort(answer, from)
			}
		}
	}()
	return conn.Close, nil
}

// signature is the Message-Authenticator of an answer that still carries the
// request's authenticator (RFC 3579 section 3.2).
func signature(answer []byte) []byte {
	mac := hmac.New(md5.New, []byte(secret))
	mac.Write(answer)
	return mac.Sum(nil)
}

// accept answers an Access-Request or an Accounting-Request.
func accept(b []byte) []byte {
	if len(b) < 20 {
		return nil
	}
	code, attributes := byte(2), []byte{6, 6, 0, 0, 0, 2, 7, 6, 0, 0, 0, 1} // Framed, PPP
	switch b[0] {
	case 1:
		attributes = append(attributes, make([]byte, 18)...)
		attributes[12], attributes[13] = 80, 18 // Message-Authenticator
	case 4:
		code, attributes = 5, nil
	default:
		return nil
	}
	answer := append([]byte{code, b[1], 0, 0}, b[4:20]...)
	answer = append(answer, attributes...)
	binary.BigEndian.PutUint16(answer[2:], uint16(len(answer)))
	if code == 2 {
		copy(answer[len(answer)-16:], signature(answer))
	}
	sum := md5.Sum(append(answer[:len(answer):len(answer)], secret...)) //nolint:gosec // see above
	copy(answer[4:20], sum[:])
	return answer
}
