package bus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"

	"weft/internal/helper"
)

// kinds of messages between weft and weft-bus; both are of one version
const (
	// to weft-bus
	KindStart   byte = 1 + iota // Settings, as JSON; the first message
	KindPublish                 // the message
	KindAsk                     // the peer's name
	KindMeasure                 // send KindBehind for a second
	// to weft
	KindEvent   // an Event other than Message, as JSON
	KindMessage // a Message
	KindStatus  // a Status, as JSON
	KindBehind  // a float64
	KindUnsent  // why a message was not taken
)

// eventText is an Event without a Message, as JSON.
type eventText struct {
	What     string `json:"what"`
	Peer     string `json:"peer,omitempty"`
	Seamless bool   `json:"seamless,omitempty"`
	Err      string `json:"error,omitempty"`
}

// errorOf gives a text back its form; an empty one is no error.
func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// EventMessage is an event as weft-bus sends it.
func EventMessage(e Event) (helper.Message, error) {
	var t eventText
	switch {
	case e.Message != nil:
		return helper.Message{Kind: KindMessage, Data: appendMessage(nil, *e.Message)}, nil
	case e.Opened != nil:
		t.What = "opened"
	case e.Closed != nil:
		t = eventText{What: "closed", Err: textOf(e.Closed.Err)}
	case e.Joined != nil:
		t = eventText{What: "joined", Peer: e.Joined.Peer, Seamless: e.Joined.Seamless}
	case e.Left != nil:
		t = eventText{What: "left", Peer: e.Left.Peer, Err: textOf(e.Left.Err)}
	case e.Asked != nil:
		t = eventText{What: "asked", Peer: e.Asked.Peer}
	}
	data, err := json.Marshal(t)
	return helper.Message{Kind: KindEvent, Data: data}, err
}

var errEvent = errors.New("not an event of weft-bus")

func readEvent(m helper.Message) (Event, error) {
	if m.Kind == KindMessage {
		one, err := readMessage(m.Data)
		return Event{Message: one}, err
	}
	var t eventText
	if err := json.Unmarshal(m.Data, &t); err != nil {
		return Event{}, err
	}
	switch t.What {
	case "opened":
		return Event{Opened: &Opened{}}, nil
	case "closed":
		return Event{Closed: &Closed{errorOf(t.Err)}}, nil
	case "joined":
		return Event{Joined: &Joined{t.Peer, t.Seamless}}, nil
	case "left":
		return Event{Left: &Left{t.Peer, errorOf(t.Err)}}, nil
	case "asked":
		return Event{Asked: &Asked{t.Peer}}, nil
	}
	return Event{}, errEvent
}

// A Message is a byte that says whether others were missed, how many are behind
// (8 bytes), the length of the peer's name (1), the name, and the data.
const messageHead = 10

func appendMessage(to []byte, m Message) []byte {
	missed := byte(0)
	if m.Missed {
		missed = 1
	}
	to = binary.BigEndian.AppendUint64(append(to, missed), m.Behind)
	name := m.Peer[:min(len(m.Peer), math.MaxUint8)]
	return append(append(append(to, byte(len(name))), name...), m.Data...)
}

func readMessage(data []byte) (*Message, error) {
	if len(data) < messageHead || len(data) < messageHead+int(data[messageHead-1]) {
		return nil, errEvent
	}
	end := messageHead + int(data[messageHead-1])
	return &Message{Missed: data[0] == 1, Behind: binary.BigEndian.Uint64(data[1:9]), Peer: string(data[messageHead:end]), Data: data[end:]}, nil
}

// statusText is a Status, as JSON.
type statusText struct {
	Clients  int    `json:"clients"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Refused  uint64 `json:"refused"`
}

func (t statusText) status() Status {
	return Status{Clients: t.Clients, Messages: t.Messages, Bytes: t.Bytes, Refused: t.Refused}
}

// StatusMessage is a status as weft-bus sends it. Whether the stream is open is
// said by events.
func StatusMessage(s Status) (helper.Message, error) {
	data, err := json.Marshal(statusText{s.Clients, s.Messages, s.Bytes, s.Refused})
	return helper.Message{Kind: KindStatus, Data: data}, err
}

// BehindMessage is how far readers are behind, as weft-bus sends it.
func BehindMessage(v float64) helper.Message {
	return helper.Message{Kind: KindBehind, Data: binary.BigEndian.AppendUint64(nil, math.Float64bits(v))}
}

func readBehind(data []byte) (float64, error) {
	if len(data) != 8 {
		return 0, errEvent
	}
	return math.Float64frombits(binary.BigEndian.Uint64(data)), nil
}
