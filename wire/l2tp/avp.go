package l2tp

import (
	"crypto/md5" // section 4.3 says MD5
	"encoding/binary"
	"errors"
	"fmt"
)

// Attribute is the type of an AVP (RFC 2661 section 4.4).
type Attribute uint16

const (
	MessageTypeAVP       Attribute = 0
	ResultCodeAVP        Attribute = 1
	ProtocolVersion      Attribute = 2
	FramingCapabilities  Attribute = 3
	BearerCapabilities   Attribute = 4
	TieBreaker           Attribute = 5
	FirmwareRevision     Attribute = 6
	HostName             Attribute = 7
	VendorName           Attribute = 8
	AssignedTunnelID     Attribute = 9
	ReceiveWindowSize    Attribute = 10
	Challenge            Attribute = 11
	CauseCode            Attribute = 12
	ChallengeResponse    Attribute = 13
	AssignedSessionID    Attribute = 14
	CallSerialNumber     Attribute = 15
	MinimumBPS           Attribute = 16
	MaximumBPS           Attribute = 17
	BearerType           Attribute = 18
	FramingType          Attribute = 19
	CalledNumber         Attribute = 21
	CallingNumber        Attribute = 22
	SubAddress           Attribute = 23
	TxConnectSpeed       Attribute = 24
	PhysicalChannelID    Attribute = 25
	InitialReceivedLCP   Attribute = 26
	LastSentLCP          Attribute = 27
	LastReceivedLCP      Attribute = 28
	ProxyAuthenType      Attribute = 29
	ProxyAuthenName      Attribute = 30
	ProxyAuthenChallenge Attribute = 31
	ProxyAuthenID        Attribute = 32
	ProxyAuthenResponse  Attribute = 33
	CallErrors           Attribute = 34
	ACCM                 Attribute = 35
	RandomVector         Attribute = 36
	PrivateGroupID       Attribute = 37
	RxConnectSpeed       Attribute = 38
	SequencingRequired   Attribute = 39
)

// lengths returns the shortest and longest value of each attribute.
func lengths(a Attribute) (least, most int, known bool) {
	const any = 1017 // an AVP's length has ten bits
	switch a {
	case MessageTypeAVP, ProtocolVersion, FirmwareRevision, AssignedTunnelID, ReceiveWindowSize,
		AssignedSessionID, ProxyAuthenType, ProxyAuthenID:
		return 2, 2, true
	case FramingCapabilities, BearerCapabilities, CallSerialNumber, MinimumBPS, MaximumBPS, BearerType,
		FramingType, TxConnectSpeed, PhysicalChannelID, RxConnectSpeed:
		return 4, 4, true
	case TieBreaker:
		return 8, 8, true
	case ChallengeResponse:
		return 16, 16, true
	case CallErrors:
		return 26, 26, true
	case ACCM:
		return 10, 10, true
	case SequencingRequired:
		return 0, 0, true
	case ResultCodeAVP:
		return 2, any, true
	case CauseCode:
		return 3, any, true
	case Challenge, HostName, RandomVector, PrivateGroupID:
		return 1, any, true
	case VendorName, CalledNumber, CallingNumber, SubAddress, InitialReceivedLCP, LastSentLCP, LastReceivedLCP,
		ProxyAuthenName, ProxyAuthenChallenge, ProxyAuthenResponse:
		return 0, any, true
	}
	return 0, any, false
}

// Bits of an AVP's first word (section 4.1).
const (
	avpMandatory = 0x8000
	avpHidden    = 0x4000
	avpReserved  = 0x3c00
	avpLength    = 0x03ff
	avpHeader    = 6
)

// AVP is one attribute and its value.
type AVP struct {
	Mandatory bool
	Hidden    bool // the value is still enciphered
	Vendor    uint16
	Attribute Attribute
	Value     []byte

	reserved bool // a reserved bit is set: to be taken for unknown
}

// avpsMax bounds the AVPs of one message.
const avpsMax = 128

// parseAVPs reads a control message's body.
func parseAVPs(b []byte) ([]AVP, error) {
	var list []AVP
	for len(b) > 0 {
		if len(b) < avpHeader {
			return list, errors.New("read AVP: cut short")
		}
		word := binary.BigEndian.Uint16(b)
		n := int(word & avpLength)
		if n < avpHeader || n > len(b) {
			return list, fmt.Errorf("read AVP: its length %d does not fit", n)
		}
		if len(list) == avpsMax {
			return list, errors.New("read AVP: too many")
		}
		list = append(list, AVP{
			Mandatory: word&avpMandatory != 0, Hidden: word&avpHidden != 0, reserved: word&avpReserved != 0,
			Vendor: binary.BigEndian.Uint16(b[2:]), Attribute: Attribute(binary.BigEndian.Uint16(b[4:])),
			Value: b[avpHeader:n:n],
		})
		b = b[n:]
	}
	return list, nil
}

func (a AVP) append(b []byte) []byte {
	word := uint16(avpHeader + len(a.Value))
	if a.Mandatory {
		word |= avpMandatory
	}
	if a.Hidden {
		word |= avpHidden
	}
	b = binary.BigEndian.AppendUint16(b, word)
	b = binary.BigEndian.AppendUint16(b, a.Vendor)
	b = binary.BigEndian.AppendUint16(b, uint16(a.Attribute))
	return append(b, a.Value...)
}

// cipher is the stream of section 4.3: what each block is combined with comes
// from the secret and the block before.
func cipher(a Attribute, secret, vector, in []byte, deciphering bool) []byte {
	out := make([]byte, len(in))
	sum := md5.New()
	sum.Write(binary.BigEndian.AppendUint16(nil, uint16(a)))
	sum.Write(secret)
	sum.Write(vector)
	for at := 0; at < len(in); at += md5.Size {
		key := sum.Sum(nil)
		end := min(at+md5.Size, len(in))
		for i := at; i < end; i++ {
			out[i] = in[i] ^ key[i-at]
		}
		block := out[at:end]
		if deciphering {
			block = in[at:end]
		}
		sum.Reset()
		sum.Write(secret)
		sum.Write(block)
	}
	return out
}

// hide enciphers the value. padding hides its length.
func (a AVP) hide(secret, vector, padding []byte) AVP {
	plain := binary.BigEndian.AppendUint16(nil, uint16(len(a.Value)))
	plain = append(append(plain, a.Value...), padding...)
	a.Hidden, a.Value = true, cipher(a.Attribute, secret, vector, plain, false)
	return a
}

var errHidden = errors.New("read hidden AVP: the secret is another, or the value is damaged")

// reveal deciphers the value.
func (a AVP) reveal(secret, vector []byte) (AVP, error) {
	if len(secret) == 0 || len(vector) == 0 || len(a.Value) < 2 {
		return a, errHidden
	}
	plain := cipher(a.Attribute, secret, vector, a.Value, true)
	n := int(binary.BigEndian.Uint16(plain))
	if n > len(plain)-2 {
		return a, errHidden
	}
	a.Hidden, a.Value = false, plain[2:2+n:2+n]
	return a, nil
}

// Response answers a challenge (section 4.4.3): message is the type of the
// message that carries the answer.
func Response(message MessageType, secret, challenge []byte) []byte {
	sum := md5.New()
	sum.Write([]byte{byte(message)})
	sum.Write(secret)
	sum.Write(challenge)
	return sum.Sum(nil)
}
