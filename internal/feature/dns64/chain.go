package dns64

import (
	"github.com/miekg/dns"
)

const (
	// aliasesMost is how many aliases an answer may follow one after the other, as
	// in BIND.
	aliasesMost = 16
	// recordsMost is how many records an answer may have, all sections together.
	recordsMost = 2000
	// nameMost is how long a name may be, in bytes on the wire (RFC 1035 section 3.1).
	nameMost = 255
)

// understand takes from a reply what answers the question. A reply beyond the
// bounds counts as a failure.
func understand(q question, reply *dns.Msg, trust bool) *answer {
	if len(reply.Answer)+len(reply.Ns)+len(reply.Extra) > recordsMost {
		return &answer{rcode: dns.RcodeServerFailure}
	}
	a := &answer{rcode: reply.Rcode, ns: reply.Ns, ad: trust && reply.AuthenticatedData}
	if opt := reply.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if ede, is := o.(*dns.EDNS0_EDE); is {
				a.ede = ede
			}
		}
	}
	for _, rr := range reply.Extra {
		switch rr.(type) {
		case *dns.OPT, *dns.TSIG, *dns.SIG:
		default:
			a.extra = append(a.extra, rr)
		}
	}
	var ok bool
	if a.answer, ok = chain(q, reply.Answer); !ok {
		return &answer{rcode: dns.RcodeServerFailure}
	}
	return a
}

// chain keeps the records that answer q: those of its name and of the names
// that aliases lead to. Others have no business in the answer (RFC 5452
// section 6). ok is false if there are too many aliases, or they go round in
// circles. Its cost is linear in the number of records.
func chain(q question, records []dns.RR) (kept []dns.RR, ok bool) {
	to, below := aliases(records)
	names, through := map[string]bool{}, map[string]bool{} // owners of DNAMEs that apply
	for name, more := q.name, true; more; {
		if names[name] || len(names) > aliasesMost {
			return nil, false
		}
		names[name] = true
		at, found := dnameOf(name, below)
		if found {
			through[at] = true
		}
		next, is := to[name]
		switch {
		case is && (q.typ == dns.TypeCNAME || q.typ == dns.TypeANY): // RFC 1034 section 3.6.2
			more = false
		case is:
			name = next
		case found:
			if name, more = substitute(name, at, below[at]); !more {
				return nil, false // RFC 6672 section 2.2: the name would be too long
			}
		default:
			more = false
		}
	}
	for _, rr := range records {
		owner := dns.CanonicalName(rr.Header().Name)
		switch rr := rr.(type) {
		case *dns.DNAME:
			ok = through[owner] || names[owner]
		case *dns.RRSIG:
			ok = names[owner] || rr.TypeCovered == dns.TypeDNAME && through[owner]
		default:
			ok = names[owner]
		}
		if ok {
			kept = append(kept, rr)
		}
	}
	return kept, true
}

// aliases returns the targets of CNAMEs and of DNAMEs by their owners; of several
// the first counts.
func aliases(records []dns.RR) (to, below map[string]string) {
	to, below = map[string]string{}, map[string]string{}
	for _, rr := range records {
		into, target := to, ""
		switch alias := rr.(type) {
		case *dns.CNAME:
			target = alias.Target
		case *dns.DNAME:
			into, target = below, alias.Target
		default:
			continue
		}
		owner := dns.CanonicalName(rr.Header().Name)
		if _, known := into[owner]; !known {
			into[owner] = dns.CanonicalName(target)
		}
	}
	return to, below
}

// dnameOf finds the DNAME that is nearest above a name.
func dnameOf(name string, below map[string]string) (owner string, found bool) {
	if len(below) == 0 {
		return "", false
	}
	for at, end := dns.NextLabel(name, 0); ; at, end = dns.NextLabel(name, at) {
		owner = name[at:]
		if end {
			owner = "."
		}
		if _, found = below[owner]; found && owner != name {
			return owner, true
		}
		if end {
			return "", false
		}
	}
}

// substitute puts target in the place of owner, at the end of name.
func substitute(name, owner, target string) (string, bool) {
	prefix := name[:len(name)-len(owner)]
	if owner == "." {
		prefix = name
	}
	if target == "." {
		target = ""
	}
	long := prefix + target
	_, err := dns.PackDomainName(long, make([]byte, nameMost), 0, nil, false)
	return long, err == nil
}
