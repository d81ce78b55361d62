package dhcp6

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// writer appends options; the first that cannot be written is its error.
type writer struct {
	b   []byte
	err error
}

// option appends an option whose data fill writes.
func (w *writer) option(code uint16, fill func()) {
	w.b = binary.BigEndian.AppendUint16(w.b, code)
	at := len(w.b)
	w.b = append(w.b, 0, 0)
	fill()
	n := len(w.b) - at - 2
	if n > 0xffff && w.err == nil {
		w.err = fmt.Errorf("write DHCPv6 option %d: it has %d bytes", code, n)
	}
	binary.BigEndian.PutUint16(w.b[at:], uint16(n))
}

func (w *writer) bytes(code uint16, data []byte) {
	w.option(code, func() { w.b = append(w.b, data...) })
}

func (w *writer) seconds(d time.Duration) {
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(d/time.Second))
}

func (w *writer) status(s *Status) {
	if s != nil {
		w.option(optionStatus, func() { w.b = append(binary.BigEndian.AppendUint16(w.b, uint16(*s)), s.String()...) })
	}
}

func (w *writer) address(a netip.Addr) {
	if !a.IsValid() {
		a = netip.IPv6Unspecified()
	}
	b := a.As16()
	w.b = append(w.b, b[:]...)
}

func (w *writer) ia(code uint16, ia IA) {
	w.option(code, func() {
		w.b = append(w.b, ia.ID[:]...)
		w.seconds(ia.T1)
		w.seconds(ia.T2)
		for _, l := range ia.Leases {
			if code == optionIANA {
				w.option(optionIAAddr, func() {
					w.address(l.Prefix.Addr())
					w.seconds(l.Preferred)
					w.seconds(l.Valid)
				})
				continue
			}
			w.option(optionIAPrefix, func() {
				w.seconds(l.Preferred)
				w.seconds(l.Valid)
				w.b = append(w.b, byte(max(l.Prefix.Bits(), 0)))
				w.address(l.Prefix.Addr())
			})
		}
		w.status(ia.Status)
	})
}

// name writes a domain name without compression (section 10).
func (w *writer) name(name string) {
	at := len(w.b)
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if (len(label) == 0 || len(label) > 63) && w.err == nil {
			w.err = fmt.Errorf("write DHCPv6 message: %q is no domain name", name)
		}
		w.b = append(append(w.b, byte(len(label))), label...)
	}
	w.b = append(w.b, 0)
	if len(w.b)-at > 255 && w.err == nil {
		w.err = fmt.Errorf("write DHCPv6 message: %q is longer than a domain name may be", name)
	}
}

// Marshal writes the message.
func (m *Message) Marshal() ([]byte, error) {
	w := &writer{b: append([]byte{byte(m.Type)}, m.Transaction[:]...)}
	if m.ClientID != nil {
		w.bytes(optionClientID, m.ClientID)
	}
	if m.ServerID != nil {
		w.bytes(optionServerID, m.ServerID)
	}
	for _, ia := range m.Addresses {
		w.ia(optionIANA, ia)
	}
	for _, ia := range m.Prefixes {
		w.ia(optionIAPD, ia)
	}
	if len(m.Requested) > 0 {
		w.option(optionORO, func() {
			for _, o := range m.Requested {
				w.b = binary.BigEndian.AppendUint16(w.b, o)
			}
		})
	}
	if m.Type != Advertise && m.Type != Reply { // section 21.9: clients must say
		hundredths := min(m.Elapsed/(10*time.Millisecond), 0xffff)
		w.bytes(optionElapsed, binary.BigEndian.AppendUint16(nil, uint16(hundredths)))
	}
	if m.RapidCommit {
		w.bytes(optionRapidCommit, nil)
	}
	w.status(m.Status)
	if m.Preference != nil {
		w.bytes(optionPreference, []byte{*m.Preference})
	}
	if len(m.DNS) > 0 {
		w.option(OptionDNS, func() {
			for _, a := range m.DNS {
				w.address(a)
			}
		})
	}
	if len(m.Search) > 0 {
		w.option(OptionSearch, func() {
			for _, name := range m.Search {
				w.name(name)
			}
		})
	}
	if m.Portal != "" {
		w.bytes(OptionPortal, []byte(m.Portal))
	}
	if m.Refresh != 0 {
		w.option(OptionRefresh, func() { w.seconds(m.Refresh) })
	}
	return w.b, w.err
}
