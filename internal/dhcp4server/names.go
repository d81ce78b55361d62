package dhcp4server

import (
	"slices"
	"strconv"
	"strings"
)

// unsafeNames are names that a host must not take for itself on a LAN: some programs ask
// for them and trust the answer.
func unsafeNames() []string { return []string{"localhost", "wpad", "isatap", "gateway", "router"} }

// HostName is what a client calls itself, as a label of DNS (RFC 1123 section 2.1): lower
// case letters, digits and hyphens; "": nothing is left.
func HostName(text string) string {
	text, _, _ = strings.Cut(text, ".")
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r == '_' || r == ' ':
			return '-'
		}
		return -1
	}, text)
	label = strings.Trim(label, "-")
	return strings.TrimRight(label[:min(len(label), 63)], "-")
}

// name gives a client its name, or the name with a number if another client has it.
// Reserved names are their clients'.
func (s *Server) name(e *entry, wanted string) {
	name := HostName(wanted)
	if e.HostName != "" && s.names[e.HostName] == e && (e.HostName == name || name != "" && strings.HasPrefix(e.HostName, name+"-")) {
		return
	}
	s.unname(e)
	if name == "" {
		return
	}
	own := s.reservation(e.pool, e.key, e.Hardware)
	for i := 1; i < 100; i++ {
		candidate := name
		if i > 1 {
			n := "-" + strconv.Itoa(i)
			candidate = name[:min(len(name), 63-len(n))] + n
		}
		if other := s.names[candidate]; other == nil && s.mayHave(candidate, own) {
			e.HostName = candidate
			s.names[candidate] = e
			return
		}
	}
}

func (s *Server) mayHave(name string, own *Reservation) bool {
	if own != nil && HostName(own.HostName) == name {
		return true
	}
	if slices.Contains(unsafeNames(), name) || slices.Contains(s.config.Reserved, name) {
		return false
	}
	return !slices.ContainsFunc(s.config.Reservations, func(r Reservation) bool { return r.HostName != "" && HostName(r.HostName) == name })
}

// unname takes the name of a client away.
func (s *Server) unname(e *entry) {
	if e.HostName != "" && s.names[e.HostName] == e {
		delete(s.names, e.HostName)
	}
	e.HostName = ""
}
