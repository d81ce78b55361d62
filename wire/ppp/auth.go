package ppp

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" // RFC 1994 section 2 says MD5
	"encoding/hex"
	"errors"
	"strings"

	"layeh.com/radius/rfc2759"
)

// Algorithms of CHAP.
const (
	AlgorithmMD5      = 5
	AlgorithmMSCHAPv2 = 0x81 // RFC 2759
)

var errAuth = errors.New("read authentication: a length does not fit")

// ParsePAP reads login and password of a request (RFC 1334 section 2.2.1).
func ParsePAP(data []byte) (login, password []byte, err error) {
	login, rest, ok := counted(data)
	if !ok {
		return nil, nil, errAuth
	}
	password, _, ok = counted(rest)
	if !ok {
		return nil, nil, errAuth
	}
	return login, password, nil
}

func counted(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n:n], b[n:], true
}

// MarshalPAP is the data of a request; MarshalText that of its answers.
func MarshalPAP(login, password string) []byte {
	b := append([]byte{byte(min(len(login), 255))}, login[:min(len(login), 255)]...)
	b = append(b, byte(min(len(password), 255)))
	return append(b, password[:min(len(password), 255)]...)
}

// MarshalText is the message of a PAP answer.
func MarshalText(text string) []byte {
	text = text[:min(len(text), 255)]
	return append([]byte{byte(len(text))}, text...)
}

// ParseCHAP reads value and name of a challenge or response (RFC 1994 section 4.1).
func ParseCHAP(data []byte) (value, name []byte, err error) {
	value, name, ok := counted(data)
	if !ok || len(value) == 0 {
		return nil, nil, errAuth
	}
	return value, name, nil
}

// MarshalCHAP is the data of a challenge or response.
func MarshalCHAP(value []byte, name string) []byte {
	return append(append([]byte{byte(len(value))}, value...), name...)
}

// CHAPDigest is the response to an MD5 challenge.
func CHAPDigest(id uint8, secret, challenge []byte) []byte {
	sum := md5.New()
	sum.Write([]byte{id})
	sum.Write(secret)
	sum.Write(challenge)
	return sum.Sum(nil)
}

// CHAPValid reports whether a response is right.
func CHAPValid(id uint8, secret, challenge, response []byte) bool {
	return hmac.Equal(CHAPDigest(id, secret, challenge), response)
}

// MSCHAPv2Response is a response's value (RFC 2759 section 4).
type MSCHAPv2Response struct {
	PeerChallenge []byte // 16 bytes
	NTResponse    []byte // 24 bytes
	Flags         uint8
}

const msResponse = 49

// ParseMSCHAPv2 reads a response's value.
func ParseMSCHAPv2(value []byte) (MSCHAPv2Response, error) {
	if len(value) != msResponse {
		return MSCHAPv2Response{}, errAuth
	}
	return MSCHAPv2Response{value[:16:16], value[24:48:48], value[48]}, nil
}

// Marshal is the value of a response.
func (r MSCHAPv2Response) Marshal() []byte {
	b := append(bytes.Clone(r.PeerChallenge), make([]byte, 8)...)
	return append(append(b, r.NTResponse...), r.Flags)
}

// MSCHAPv2NT computes the NT response (section 8.1). The login goes in without
// its domain.
func MSCHAPv2NT(authenticator, peer []byte, login, password string) ([]byte, error) {
	return rfc2759.GenerateNTResponse(authenticator, peer, []byte(withoutDomain(login)), []byte(password))
}

// MSCHAPv2Authenticator computes the 42 characters by which the authenticator
// shows that it knows the password (section 8.7).
func MSCHAPv2Authenticator(authenticator, peer, nt []byte, login, password string) (string, error) {
	return rfc2759.GenerateAuthenticatorResponse(authenticator, peer, nt, []byte(withoutDomain(login)), []byte(password))
}

// withoutDomain takes DOMAIN\ away, as RFC 2759 section 4 has it.
func withoutDomain(login string) string {
	if i := strings.LastIndexByte(login, '\\'); i >= 0 {
		return login[i+1:]
	}
	return login
}

// MSCHAPv2Failure is the message of a failure that allows no other attempt
// (section 6): E=691 is ERROR_AUTHENTICATION_FAILURE.
func MSCHAPv2Failure(challenge []byte) string {
	return "E=691 R=0 C=" + strings.ToUpper(hex.EncodeToString(challenge)) + " V=3 M=Authentication failed"
}
