package dns64

import (
	"fmt"
	"net/netip"
	"strings"
)

// Transport is how a forwarder is asked.
type Transport string

const (
	UDP Transport = "udp" // and TCP when an answer is too long
	TCP Transport = "tcp"
	TLS Transport = "tls" // RFC 7858
)

// Forwarder is a recursive resolver.
type Forwarder struct {
	Transport Transport
	Address   netip.AddrPort
	Name      string // TLS: whom the certificate must name (RFC 8310 section 8.1)
}

func (f Forwarder) String() string {
	port := uint16(53)
	if f.Transport == TLS {
		port = 853
	}
	s := f.Address.String()
	if f.Address.Port() == port {
		s = f.Address.Addr().String()
	}
	if f.Transport != UDP {
		s = string(f.Transport) + "://" + s
	}
	if f.Name != "" {
		s += "#" + f.Name
	}
	return s
}

// ParseForwarder reads ADDRESS, ADDRESS:PORT, tcp://... or tls://...#NAME. The
// errors say what is wrong with the text, and what would be right.
func ParseForwarder(text string) (f Forwarder, what, remedy string) {
	f.Transport = UDP
	rest := text
	if scheme, after, ok := strings.Cut(text, "://"); ok {
		switch f.Transport = Transport(scheme); f.Transport {
		case UDP, TCP, TLS:
			rest = after
		default:
			return f, fmt.Sprintf("%q has a scheme that is not known", text), `"tcp://", "tls://", or none`
		}
	}
	rest, name, named := strings.Cut(rest, "#")
	switch {
	case f.Transport == TLS && name == "":
		return f, fmt.Sprintf("%q does not say whom the certificate must name", text), fmt.Sprintf("like %q", text+"#dns.example.net")
	case f.Transport != TLS && named:
		return f, fmt.Sprintf("%q names a certificate, but is not asked over TLS", text), "put tls:// before it, or take the # and what follows it out"
	case f.Transport == TLS && !hostName(name):
		return f, fmt.Sprintf("%q cannot be a name in a certificate", name), `like "dns.example.net"`
	}
	f.Name = strings.ToLower(name)
	f.Address, what, remedy = parseEndpoint(rest, f.Transport)
	return f, what, remedy
}

func parseEndpoint(text string, t Transport) (ap netip.AddrPort, what, remedy string) {
	port := uint16(53)
	if t == TLS {
		port = 853
	}
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err == nil {
		ap = netip.AddrPortFrom(a, port)
	} else if ap, err = netip.ParseAddrPort(text); err != nil || ap.Port() == 0 {
		return netip.AddrPort{}, fmt.Sprintf("%q is not an address, nor an address and port", text), `like "192.0.2.53" or "[2001:db8::53]:5353"; a name cannot be resolved before there is a resolver`
	}
	a := ap.Addr()
	switch {
	case a.Is4In6():
		return ap, fmt.Sprintf("%q is an IPv4 address in IPv6 dress", text), fmt.Sprintf("its IPv4 form is %s", a.Unmap())
	case a.IsUnspecified(), a.IsMulticast():
		return ap, fmt.Sprintf("%s is not a unicast address", a), "use the resolver's address"
	case a.IsLinkLocalUnicast() && a.Zone() == "":
		return ap, fmt.Sprintf("%s is link-local, and says not on which device", a), fmt.Sprintf("like \"%s%%eth0\"", a)
	}
	return ap, "", ""
}

// hostName reports whether s can be a host name (RFC 1123 section 2.1).
func hostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label || strings.ContainsFunc(label, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
		}) {
			return false
		}
	}
	return true
}
