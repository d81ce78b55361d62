package dhcp4

import (
	"encoding/binary"
	"net/netip"
	"strings"
)

// Route is one of option 121. A gateway that is not there: the destination is on the link.
type Route struct {
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway,omitzero"`
}

// Routes returns the classless static routes (RFC 3442); ok is whether the option is there
// and whole. Who has them ignores option 3.
func (l Options) Routes() (list []Route, ok bool) {
	code := uint8(OptionRoutes)
	if !l.Has(code) {
		code = OptionPrivateRoutes
	}
	d := l.Get(code)
	ok = len(d) > 0
	for len(d) > 0 && len(list) < routesMost {
		bits := int(d[0])
		n := (bits + 7) / 8
		if bits > 32 || len(d) < 1+n+4 {
			return nil, false
		}
		var to [4]byte
		copy(to[:], d[1:1+n])
		r := Route{netip.PrefixFrom(netip.AddrFrom4(to), bits).Masked(), address(d[1+n:])}
		if !r.Destination.Addr().IsMulticast() {
			list = append(list, r)
		}
		d = d[1+n+4:]
	}
	return list, ok
}

// Routes makes the option of classless static routes. Routes that are not IPv4 are left out.
func Routes(list ...Route) Option {
	o := Option{Code: OptionRoutes, Data: []byte{}}
	for _, r := range list {
		if !r.Destination.IsValid() || !r.Destination.Addr().Is4() {
			continue
		}
		bits := r.Destination.Bits()
		to := r.Destination.Masked().Addr().As4()
		o.Data = append(append(o.Data, byte(bits)), to[:(bits+7)/8]...)
		gateway := [4]byte{}
		if r.Gateway.Is4() {
			gateway = r.Gateway.As4()
		}
		o.Data = append(o.Data, gateway[:]...)
	}
	return o
}

// SixRD is what a host needs for 6rd (RFC 5969 section 7.1.1).
type SixRD struct {
	MaskLen int          `json:"mask_len"` // of IPv4 addresses: that many bits are not in the prefix
	Prefix  netip.Prefix `json:"prefix"`
	Relays  []netip.Addr `json:"relays"`
}

// SixRD returns the option of 6rd; ok is whether it is there and makes sense.
func (l Options) SixRD() (s SixRD, ok bool) {
	d := l.Get(OptionSixRD)
	if len(d) < 22 || (len(d)-18)%4 != 0 || d[0] > 32 || int(d[1])+32-int(d[0]) > 128 {
		return s, false
	}
	s.MaskLen = int(d[0])
	s.Prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte(d[2:18])), int(d[1])).Masked()
	s.Relays = Options{{OptionSixRD, d[18:]}}.Addresses(OptionSixRD)
	return s, len(s.Relays) > 0 && !s.Prefix.Addr().Is4In6()
}

// SixRDOption makes the option of 6rd.
func SixRDOption(s SixRD) Option {
	prefix := s.Prefix.Addr().As16()
	data := append([]byte{byte(s.MaskLen), byte(s.Prefix.Bits())}, prefix[:]...)
	return Option{OptionSixRD, append(data, Addresses(0, s.Relays...).Data...)}
}

// RelayAgent is what a relay agent says (RFC 3046); nil and the zero Addr: nothing.
type RelayAgent struct {
	Circuit, Remote []byte
	Link            netip.Addr // link selection (RFC 3527)
	Server          netip.Addr // server identifier override (RFC 5107)
}

// RelayAgent returns what the relay agent says.
func (l Options) RelayAgent() (a RelayAgent) {
	for d := l.Get(OptionRelayAgent); len(d) >= 2 && len(d)-2 >= int(d[1]); {
		n := int(d[1])
		data := d[2 : 2+n : 2+n]
		switch {
		case d[0] == 1:
			a.Circuit = data
		case d[0] == 2:
			a.Remote = data
		case d[0] == 5 && n == 4:
			a.Link = address(data)
		case d[0] == 11 && n == 4:
			a.Server = address(data)
		}
		d = d[2+n:]
	}
	return a
}

// Search returns the domain search list (RFC 3397). Names may point at earlier ones; a list
// that breaks a rule is none. The cost has a bound: so many names of so many labels.
func (l Options) Search() (list []string) {
	d := l.Get(OptionSearch)
	for at := 0; at < len(d) && len(list) < namesMost; {
		name, next, ok := readName(d, at)
		if !ok {
			return nil
		}
		if at = next; name != "" {
			list = append(list, name)
		}
	}
	return list
}

// readName reads the name at an offset, and returns where the next one begins.
func readName(d []byte, at int) (name string, next int, ok bool) {
	var text strings.Builder
	length := 1
	for low := at; ; { // pointers go to before low, so that each leads further back
		if at >= len(d) {
			return "", 0, false
		}
		n := int(d[at])
		switch {
		case n == 0:
			if next == 0 {
				next = at + 1
			}
			return text.String(), next, true
		case n >= 0xc0:
			if at+1 >= len(d) {
				return "", 0, false
			}
			to := int(binary.BigEndian.Uint16(d[at:])) &^ 0xc000
			if next == 0 {
				next = at + 2
			}
			// each pointer counts as a label, so that a chain of them has an end
			if length++; to >= low || length > 255 {
				return "", 0, false
			}
			at, low = to, to
			continue
		case n > 63 || at+1+n > len(d):
			return "", 0, false
		}
		if length += n + 1; length > 255 {
			return "", 0, false
		}
		label := string(d[at+1 : at+1+n])
		if strings.ContainsFunc(label, func(r rune) bool { return r <= ' ' || r == '.' || r > '~' }) {
			return "", 0, false
		}
		if text.Len() > 0 {
			text.WriteByte('.')
		}
		text.WriteString(label)
		at += 1 + n
	}
}

// Search makes the option of a domain search list, whose common endings are written once.
// A name that is no domain name is left out.
func Search(list ...string) Option {
	o := Option{Code: OptionSearch, Data: []byte{}}
	at := map[string]int{} // where an ending begins
	for _, name := range list {
		name = strings.TrimSuffix(name, ".")
		if !domain(name) {
			continue
		}
		for name != "" {
			if pointer, there := at[name]; there {
				o.Data = binary.BigEndian.AppendUint16(o.Data, uint16(0xc000|pointer))
				break
			}
			if len(o.Data) < 0x4000 {
				at[name] = len(o.Data)
			}
			label, rest, _ := strings.Cut(name, ".")
			o.Data = append(append(o.Data, byte(len(label))), label...)
			if name = rest; name == "" {
				o.Data = append(o.Data, 0)
			}
		}
	}
	return o
}

func domain(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return false
		}
	}
	return true
}
