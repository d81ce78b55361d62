package dns64

import "sync/atomic"

// event is something that is counted.
type event int

const (
	evQueriesUDP event = iota
	evQueriesTCP
	evRefused
	evLimited
	evMalformed
	evSynthesized
	evNative
	evExcluded
	evReverse
	evLocal
	evHit
	evMiss
	evJoined
	evStale
	evPrefetched
	evBusy
	evServfail
	evNXDomain
	evTruncated
	eventCount
)

// Counter is one row of `weft show dns64`.
type Counter struct {
	Name    string `json:"name"`
	Count   uint64 `json:"count"`
	Meaning string `json:"meaning"`
}

func eventRows() [eventCount]Counter {
	return [eventCount]Counter{
		evQueriesUDP:  {Name: "queries-udp", Meaning: "questions over UDP"},
		evQueriesTCP:  {Name: "queries-tcp", Meaning: "questions over TCP"},
		evRefused:     {Name: "refused", Meaning: "from strangers, or of a kind that is not answered"},
		evLimited:     {Name: "limited", Meaning: "dropped: the client asked more than rate allows"},
		evMalformed:   {Name: "malformed", Meaning: "not a proper question"},
		evSynthesized: {Name: "synthesized", Meaning: "AAAA answers made of A records"},
		evNative:      {Name: "native", Meaning: "AAAA answers as they are in the DNS"},
		evExcluded:    {Name: "excluded", Meaning: "AAAA answers from which excluded addresses were taken"},
		evReverse:     {Name: "reverse", Meaning: "reverse names under a prefix, answered with an alias"},
		evLocal:       {Name: "local", Meaning: "names answered here: ipv4only.arpa, localhost and the like"},
		evHit:         {Name: "cache-hits", Meaning: "answered from the cache"},
		evMiss:        {Name: "cache-misses", Meaning: "asked of a forwarder"},
		evJoined:      {Name: "joined", Meaning: "waited for an answer that was asked for already"},
		evStale:       {Name: "stale", Meaning: "answered beyond its time, because no forwarder did (RFC 8767)"},
		evPrefetched:  {Name: "prefetched", Meaning: "asked again before its time was over"},
		evBusy:        {Name: "busy", Meaning: "failed: too many questions were open"},
		evServfail:    {Name: "servfail", Meaning: "answered SERVFAIL"},
		evNXDomain:    {Name: "nxdomain", Meaning: "answered that there is no such name"},
		evTruncated:   {Name: "truncated", Meaning: "too long for UDP, the client comes back over TCP"},
	}
}

type stats [eventCount]atomic.Uint64

func (s *stats) count(e event) { s[e].Add(1) }

// Counters returns the rows, all of them.
func (r *Resolver) Counters() []Counter {
	rows := eventRows()
	for i := range rows {
		rows[i].Count = r.stats[i].Load()
	}
	return rows[:]
}
