package simulate

// Kind says what an Event is.
type Kind string

const (
	Arrive   Kind = "arrive"   // a stream arrives: Stream, Bytes = its size, Source
	Send     Kind = "send"     // the scheduler sent a packet: Path, Packet, Stream, Offset, Bytes; Again if not for the first time
	Drop     Kind = "drop"     // the queue was full, or CoDel dropped it: Path, Packet
	Leave    Kind = "leave"    // a packet left the queue and is being sent: Path, Packet
	Lose     Kind = "lose"     // a packet was lost behind the queue, or with its path: Path, Packet
	Receive  Kind = "receive"  // a packet arrived: Path, Packet, Stream, Offset, Bytes
	Progress Kind = "progress" // the receiver has all of a stream up to Offset: Stream
	Done     Kind = "done"     // a stream is complete at the receiver: Stream
	Ack      Kind = "ack"      // the sender knows that a packet arrived: Path, Packet, Stream, Offset, Bytes
	Miss     Kind = "miss"     // the sender takes a packet for lost: Path, Packet, Stream, Offset, Bytes
	Window   Kind = "window"   // a congestion window is now Bytes: Path
	Wait     Kind = "wait"     // data and room, but the scheduler waits
	Up       Kind = "up"       // a path returned: Path
	Down     Kind = "down"     // a path failed: Path
)

// Event is one thing that happened in a run. As JSON it is one small object;
// fields that a kind does not use are left out. A packet is named by its path
// and number; probes, which carry no data, have Stream 0. The page that draws
// a run reads these and nothing else.
type Event struct {
	At     Time   `json:"t"` // nanoseconds
	Kind   Kind   `json:"k"`
	Path   int    `json:"p,omitempty"` // index into Setup.Paths
	Packet uint64 `json:"n,omitempty"` // number on that path, from 1
	Stream uint64 `json:"s,omitempty"` // from 1, in order of arrival
	Offset int64  `json:"o,omitempty"` // bytes from the stream's begin
	Bytes  int64  `json:"b,omitempty"`
	Source int    `json:"f,omitempty"` // index into Setup.Sources
	Again  bool   `json:"a,omitempty"`
}

// Recorder is called for every event, in order.
type Recorder func(Event)
