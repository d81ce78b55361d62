package sessionsync

import (
	"time"

	"weft/internal/state"
)

// Status is what `weft show session-sync` shows of the service.
type Status struct {
	Name        string     `json:"name"`
	Translators []string   `json:"translators"`
	Fresh       bool       `json:"syncing"` // not all peers have sent a full dump
	Error       string     `json:"error,omitempty"`
	Sent        Sent       `json:"sent"`
	Peers       []Received `json:"peers"`
}

// Sent are counters of messages to peers.
type Sent struct {
	Messages uint64    `json:"messages"`
	Sessions uint64    `json:"sessions"` // entries, of listings too
	Bytes    uint64    `json:"bytes"`
	Dumps    uint64    `json:"dumps"`
	Listed   time.Time `json:"last_dump,omitzero"`
	Opened   uint64    `json:"streams_opened"`
	Lost     uint64    `json:"lost"`   // changes that found no room in the ring; a listing followed
	Unsent   uint64    `json:"unsent"` // entries that the stream did not take; a listing followed
	Error    string    `json:"error,omitempty"`
}

// Received are counters of messages of a peer.
type Received struct {
	Peer      string    `json:"peer"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Error     string    `json:"error,omitempty"`
	Messages  uint64    `json:"messages"`
	Behind    uint64    `json:"behind"` // messages that wait in its stream
	Gaps      uint64    `json:"gaps"`   // how often messages were missing
	Refused   uint64    `json:"refused_messages"`
	Asked     uint64    `json:"asked"` // for listings
	Dumps     uint64    `json:"dumps"`
	Listed    time.Time `json:"last_dump,omitzero"`
	Made      uint64    `json:"made"`
	Renewed   uint64    `json:"renewed"`
	Ended     uint64    `json:"ended"`
	Kept      uint64    `json:"kept"`
	Conflicts uint64    `json:"conflicts"`
	NoRoom    uint64    `json:"no_room"`
	Disturbed uint64    `json:"disturbed"`
	Foreign   uint64    `json:"foreign"` // of translators that are not shared here
	Swept     uint64    `json:"swept"`   // ended because a listing did not have them
}

func (r *Received) count(results [state.ImportResults]uint64) {
	r.Made += results[state.ImportMade]
	r.Renewed += results[state.ImportRenewed]
	r.Ended += results[state.ImportEnded]
	r.Kept += results[state.ImportKept]
	r.Conflicts += results[state.ImportConflict]
	r.NoRoom += results[state.ImportRefused]
	r.Disturbed += results[state.ImportAgain]
}
