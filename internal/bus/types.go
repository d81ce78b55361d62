package bus

import (
	"errors"
	"net/netip"
)

// Settings of a bus.
type Settings struct {
	Program string         `json:"-"` // the helper, if it is not beside this process's own program
	Name    string         // this router's
	Listen  netip.AddrPort // of the server here; not valid: there is none
	Keys    Keys
	Peers   []Peer
	Cluster []string // URLs of an operator's servers, instead of servers here and at peers
	Dir     string   // where the server here keeps what it must; nothing of it is needed again
	Bytes   int64    // that the stream may have: then the oldest goes
}

// Keys are how routers know each other, or an operator's cluster knows them.
type Keys struct {
	CA, Certificate, Key string // files, PEM; all or none. At a cluster CA alone will do
	PasswordFile         string // the same secret on all routers; at a cluster that of User
	User                 string // at a cluster
	CredentialsFile      string // at a cluster (NATS .creds)
}

// Peer is another router.
type Peer struct {
	Name    string
	Address netip.AddrPort // of its server; not needed with Cluster
}

// Event is what happens on the bus. One of the fields is set.
type Event struct {
	Opened  *Opened
	Closed  *Closed
	Joined  *Joined
	Left    *Left
	Message *Message
	Asked   *Asked
}

// Opened says that the own stream can be written, with nothing in it.
type Opened struct{}

// Closed says that the own stream cannot be written; Opened may follow.
type Closed struct{ Err error }

// Joined says that a peer's stream is being read. Seamless: from where it was
// left, so that nothing was missed.
type Joined struct {
	Peer     string
	Seamless bool
}

// Left says that a peer's stream is not read any more, or cannot be.
type Left struct {
	Peer string
	Err  error
}

// Message is the next one of a peer's stream.
type Message struct {
	Peer   string
	Data   []byte
	Missed bool   // there were others before it, which the stream does not have any more
	Behind uint64 // how many come after it already
}

// Asked says that a peer asks for something.
type Asked struct{ Peer string }

// Status is how the own stream is.
type Status struct {
	Open     bool
	Err      error // why not
	Clients  int   // that are connected to the server here
	Messages uint64
	Bytes    uint64
	Refused  uint64 // connections without the right keys
}

// ErrClosed says that there is nowhere to write to.
var ErrClosed = errors.New("the stream is not open")
