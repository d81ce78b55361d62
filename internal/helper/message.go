// Package helper runs libraries that have goroutines of their own in helper
// processes: a panic there, or memory that grows, is the end of the helper and
// not of the router. weft starts the program, agrees with it on the version,
// exchanges messages with it over a socket, and starts it again when it ends or
// hangs (docs/decisions/0038-helper-processes.md).
//
//	Start  in weft: keeps a helper running
//	Serve  in the helper's main: everything that it does for weft
package helper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Message is what weft and a helper exchange. Kinds are those of the two ends;
// Data is at most Largest.
type Message struct {
	Kind byte
	Data []byte
}

// Largest is how many bytes a message may have.
const Largest = 1 << 20

// kinds of this package
const (
	hello byte = 0xf0 + iota // the helper's first: which program it is, and of which version
	ping                     // weft's question, whether messages are handled
	pong                     // the answer
)

// firstOwn is the first kind that the ends may not use.
const firstOwn = hello

// ErrTooLarge is the answer to a message that is larger than Largest.
var ErrTooLarge = errors.New("the message is too large")

// write sends a message: its length and kind, then its data.
func write(w io.Writer, m Message) error {
	if len(m.Data) > Largest {
		return ErrTooLarge
	}
	frame := make([]byte, 0, 5+len(m.Data))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(m.Data)))
	_, err := w.Write(append(append(frame, m.Kind), m.Data...))
	return err
}

// read takes the next message.
func read(r io.Reader) (Message, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Message{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > Largest {
		return Message{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	m := Message{Kind: head[4], Data: make([]byte, n)}
	_, err := io.ReadFull(r, m.Data)
	return m, err
}

// greeting is the data of hello.
type greeting struct {
	Program string `json:"program"`
	Version string `json:"version"`
}
