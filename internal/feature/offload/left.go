package offload

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weft/internal/state"
)

// LeftFlow is a flow that stayed with the stack although enough of its packets have
// passed.
type LeftFlow struct {
	Flow      string         `json:"flow"`      // as it leaves
	Interface uint32         `json:"interface"` // by which it came
	Why       Why            `json:"why"`
	Remedy    string         `json:"remedy,omitempty"`
	Seconds   float64        `json:"seconds"` // since it was last looked at
	Protocol  string         `json:"protocol"`
	From      netip.AddrPort `json:"from,omitzero"` // as it arrives; not there: connection tracking was not asked, or did not know
	To        netip.AddrPort `json:"to,omitzero"`
	NewFrom   netip.AddrPort `json:"new_from"` // as it leaves
	NewTo     netip.AddrPort `json:"new_to"`
}

// recentMax bounds the flows whose reason is remembered.
const recentMax = 1024

// leftFlows remembers why flows stayed with the stack, the last ones of all; by
// the flow as it leaves.
type leftFlows struct {
	at   map[state.FlowTuple]leftFlow
	ring [recentMax]state.FlowTuple // in the order in which they came
	next int
}

type leftFlow struct {
	place int // in the ring
	from  uint32
	why   Why
	when  time.Duration
	in    state.FlowTuple
}

func (l *leftFlows) put(p state.PassedFlow, arrives state.FlowTuple, why Why, now time.Duration) {
	old, known := l.at[p.Tuple]
	if !known {
		evicted := l.ring[l.next]
		if e, there := l.at[evicted]; there && e.place == l.next {
			delete(l.at, evicted)
		}
		old.place = l.next
		l.ring[l.next] = p.Tuple
		l.next = (l.next + 1) % recentMax
	}
	l.at[p.Tuple] = leftFlow{old.place, p.Interface, why, now, arrives}
}

// ended forgets both directions of a connection.
func (l *leftFlows) ended(c state.Connection) {
	delete(l.at, c.Orig.Back())
	delete(l.at, c.Reply.Back())
}

// left notes that a flow stays with the stack.
func (s *Service) left(c candidate, why Why) {
	s.counts[why]++
	switch why {
	case WhyStale: // it is looked at again after some more packets
		return
	case WhyEnding: // there is no more to know of it
		delete(s.recent.at, c.passed.Tuple)
		return
	}
	s.recent.put(c.passed, c.arrives, why, s.now)
}

// leftFlows lists those of late, the last first.
func (s *Service) leftFlows(now time.Duration) []LeftFlow {
	list := []LeftFlow{}
	for leaves, l := range s.recent.at {
		f := LeftFlow{
			Flow: leaves.String(), Interface: l.from, Why: l.why, Remedy: l.why.Remedy(), Seconds: (now - l.when).Seconds(),
			Protocol: leaves.ProtocolName(),
		}
		f.NewFrom, f.NewTo = leaves.Ends()
		if l.in.Protocol != 0 {
			f.From, f.To = l.in.Ends()
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b LeftFlow) int {
		return cmp.Or(cmp.Compare(a.Seconds, b.Seconds), strings.Compare(a.Flow, b.Flow))
	})
	return list
}

// perPacket is between the rule and what it does in a reason of that kind.
const perPacket = " looks at each packet: "

var remedies = map[Why]string{
	WhyProtocol:   "name the protocol in protocols of [offload], if it is to be offloaded",
	WhyStale:      "none needed: weft tries again after some more packets",
	WhyUnknown:    "wait a moment; if this does not change, the log of weft run has the reason",
	WhyUntracked:  "remove its notrack rule, and route both directions through this router",
	WhyNoTracking: trackingRemedy,
	WhyYoung:      "none needed: weft tries again when both sides have sent packets",
	WhyEnding:     "none needed: the stack forwards its last packets",
	WhyZones:      "use one zone of connection tracking per connection",
	WhyOld:        "reconnect, or delete its entry: conntrack -D",
	WhyRoute:      "see ip route get: only a unicast route to one next hop can be offloaded",
	WhyOtherWay:   "see ip route get and ip neigh: multipath routes, packet marks that are not saved with ct mark set, tunnels, or a redirect of another program cause this",
	WhyNeighbour:  "see ip neigh: the next hop does not answer",
	WhyFull:       "raise table_size in [offload]",
	WhyHops:       "none: the maximum is 4096",
	WhyNoLink:     "see ip link: the device must be up",
	WhyCollision:  "use different addresses or ports for the two; the stack separates them by zone",
}

// Remedy is what an operator can do so that the flow is offloaded.
func (w Why) Remedy() string {
	if strings.Contains(string(w), perPacket) {
		return "move the rule below the one that accepts established connections"
	}
	if r, known := remedies[w]; known {
		return r
	}
	return "none: only the kernel can forward it"
}
