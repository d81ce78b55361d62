package nat64

import (
	"net/netip"
	"slices"
	"sync"

	"weft/internal/state"
	"weft/internal/translate"
)

// An inbound SYN that the filter drops is stored for six seconds. If its node opens the
// same connection meanwhile (simultaneous open), the connection comes up; otherwise the
// sender gets an ICMP error, port unreachable (RFC 6146 section 3.5.2.2, V4 INIT;
// RFC 5382 REQ-4). Unlike in the RFC no session is made for it, so that unknown senders
// cannot fill the table.
const (
	synTime = 6e9 // ns; TCP_INCOMING_SYN
	synMost = 1024
)

type syns struct {
	mu   sync.Mutex // packets come on one goroutine, time on another
	kept []keptSYN  // oldest first
}

type keptSYN struct {
	since        int64
	packet       []byte
	pool, remote netip.AddrPort
}

func newSYNs() *syns { return &syns{} }

// keepSYN keeps ip if r says that it is a SYN to keep.
func (s *Slow) keepSYN(r translate.Result, ip []byte) translate.Result {
	ihl := 0
	if len(ip) > 0 {
		ihl = int(ip[0]&15) * 4
	}
	if r.Outcome != state.SlowSyn || len(ip) < ihl+20 {
		return r
	}
	port := func(at int) uint16 { return uint16(ip[ihl+at])<<8 | uint16(ip[ihl+at+1]) }
	k := keptSYN{
		since: s.now(), packet: slices.Clone(ip),
		remote: netip.AddrPortFrom(source(ip), port(0)),
		pool:   netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:20])), port(2)),
	}
	s.syns.mu.Lock()
	defer s.syns.mu.Unlock()
	again := slices.ContainsFunc(s.syns.kept, func(o keptSYN) bool { return o.pool == k.pool && o.remote == k.remote })
	if again || len(s.syns.kept) >= synMost {
		return translate.Result{Outcome: state.DropFiltered}
	}
	s.syns.kept = append(s.syns.kept, k)
	return r
}

// Due returns what is to be sent because time has passed.
func (s *Slow) Due() []Answer {
	c, now := s.current.Load(), s.now()
	s.syns.mu.Lock()
	defer s.syns.mu.Unlock()
	var answers []Answer
	for len(s.syns.kept) > 0 && now-s.syns.kept[0].since >= synTime {
		k := s.syns.kept[0]
		s.syns.kept = s.syns.kept[1:]
		if c.bindings == nil {
			continue
		}
		if _, _, opened := c.bindings.Session(6, k.pool, k.remote); opened {
			continue
		}
		s.count(state.DropFiltered)
		if reply := c.translate.Unreachable(k.packet); reply != nil {
			answers = append(answers, Answer{Bytes: reply, Local: c.local[source(reply)]})
		}
	}
	return answers
}
