// Package scenario reads the files that describe simulations.
package scenario

import (
	"time"

	"weft/internal/config"
	"weft/internal/simulate"
)

// General is the [scenario] section.
type General struct {
	Title     string        `toml:"title" doc:"One line that says what the scenario shows."`
	About     string        `toml:"about" doc:"A paragraph: what to look at, and why it happens."`
	Seed      int64         `toml:"seed" min:"0" doc:"What all chance comes from. The runs of a comparison take this one and those after it."`
	End       time.Duration `toml:"end" min:"0s" max:"1000h" doc:"When the run ends. Without it, when all streams are complete."`
	Scheduler string        `toml:"scheduler" example:"\"ecf\"" doc:"Who decides: a choice of paths (lowrtt, roundrobin, weighted, redundant, daps, blest, ecf, mptcp), of streams (turns, fifo, shortest, fair, priority), or STREAMS+PATHS."`
	Control   string        `toml:"congestion" enum:"newreno,cubic,bbr,lia,olia" doc:"Congestion control of the paths."`
	MSS       int64         `toml:"mss" min:"100" max:"65000" doc:"Bytes of data in a full packet."`
	Overhead  int64         `toml:"overhead" min:"0" max:"500" doc:"Bytes of headers that a packet takes on a path in addition."`
	Initial   int64         `toml:"initial_window" min:"1" max:"100000000" doc:"Packets that a path may have in flight at the beginning."`
	Buffer    string        `toml:"receive_buffer" example:"\"4 MB\"" doc:"What the receiver can hold, or \"unlimited\"."`
	AckEvery  int64         `toml:"ack_every" min:"1" max:"100" doc:"Packets that one acknowledgement waits for."`
	AckDelay  time.Duration `toml:"ack_delay" min:"0s" max:"1s" doc:"How long it waits at most."`
	Sender    string        `toml:"sender" enum:"weft,linux" doc:"Who sends: streams side by side, each packet where the scheduler says when it is sent (as multipath QUIC does), or Linux's MPTCP: one connection, to which streams are written one after another, with the kernel's send buffer, bursts and timers (scheduler = \"mptcp\" is its own)."`
	Lost      string        `toml:"retransmit" enum:"any,same" doc:"Where lost data goes again: on any path, as the scheduler says, or on the path that lost it, as Linux always does."`
}

// Path is a [path.NAME] section.
type Path struct {
	Rate    string        `toml:"rate" example:"\"20 Mbit/s\"" doc:"What the bottleneck sends. Either this or trace."`
	Trace   string        `toml:"trace" example:"\"mobile.trace\"" doc:"A file in mahimahi's format: a line for each packet of 1504 bytes that can leave, the milliseconds since the beginning; after the last line it begins again."`
	Delay   time.Duration `toml:"delay" min:"0s" max:"100s" doc:"One way, behind the bottleneck."`
	Back    time.Duration `toml:"back" min:"0s" max:"100s" doc:"One way of acknowledgements. Without it the same as delay."`
	Jitter  time.Duration `toml:"jitter" min:"0s" max:"100s" doc:"Up to so much more delay, at random. Packets stay in order."`
	Queue   string        `toml:"queue" example:"\"100 kB\"" doc:"Room of the queue before the bottleneck."`
	Manage  string        `toml:"manage" enum:"droptail,codel" doc:"What the queue drops: what does not fit, or by CoDel (RFC 8289) what waits too long."`
	Loss    string        `toml:"loss" example:"\"0.1%\"" doc:"Packets lost at random."`
	Burst   Burst         `toml:"burst" doc:"Losses in bursts, by Gilbert's and Elliott's model: {enter, leave, loss}."`
	AckLoss string        `toml:"ack_loss" example:"\"1%\"" doc:"Acknowledgements lost at random."`
	Weight  int64         `toml:"weight" min:"0" max:"1000000" doc:"The path's part in weighted round robin. Without it, its estimated rate."`
	Down    []string      `toml:"down" example:"[\"10s-20s\"]" doc:"Times in which the path is down, and all that is on it is lost."`
}

// Burst is Gilbert's and Elliott's model of losses.
type Burst struct {
	Enter string `toml:"enter" example:"\"0.1%\"" doc:"Of the packets in good times, after how many bad times begin."`
	Leave string `toml:"leave" example:"\"10%\"" doc:"Of those in bad times, after how many they end."`
	Loss  string `toml:"loss" example:"\"50%\"" doc:"Packets lost in bad times."`
}

// Stream is a [stream.NAME] section.
type Stream struct {
	First    time.Duration `toml:"first" min:"0s" doc:"When the first one arrives."`
	Every    time.Duration `toml:"every" min:"0s" doc:"Time between arrivals, with arrival = \"poisson\" the mean. Without it all arrive at once."`
	Count    int64         `toml:"count" min:"0" doc:"How many, 0 for as many as come until last or the end."`
	Last     time.Duration `toml:"last" min:"0s" doc:"None arrives later."`
	Arrival  string        `toml:"arrival" enum:"regular,poisson" doc:"Whether the time between arrivals is the same or exponentially distributed."`
	Size     string        `toml:"size" example:"\"1 MB\"" doc:"Bytes to deliver, or \"unlimited\"."`
	Spread   string        `toml:"sizes" enum:"fixed,exponential,pareto" doc:"How sizes are distributed about size, their mean. Pareto has shape 3/2."`
	Priority int32         `toml:"priority" min:"0" max:"1000" doc:"Smaller goes first, where the scheduler looks at it."`
	Weight   int64         `toml:"weight" min:"0" max:"1000000" doc:"Part of a fair share."`
	Deadline time.Duration `toml:"deadline" min:"0s" doc:"How long after its arrival it should be complete."`
	Page     string        `toml:"page" example:"\"shop.page\"" doc:"Instead of size: each arrival is a web page, the objects of this file: a line \"NAME AFTER MILLISECONDS BYTES\" each, AFTER being the object whose completion makes the browser ask for this one, - for the page itself."`
}

// Spec is a scenario as written.
type Spec struct {
	General *General
	Paths   []Named[Path]
	Streams []Named[Stream]
}

// Named is a section with its name.
type Named[T any] struct {
	Name  string
	Value *T
}

// Sections are the sections of a scenario, for the decoder, the schema and the
// reference.
func Sections() []config.Section {
	return []config.Section{
		{Name: "scenario", Doc: "What holds for the whole simulation.", New: func(string) any { return defaults() }},
		{Name: "path", Named: true, Doc: "A path from the sender to the receiver.", New: func(string) any {
			return &Path{Queue: "100 kB", Manage: "droptail"}
		}},
		{Name: "stream", Named: true, Doc: "A source of streams.", New: func(string) any {
			return &Stream{Count: 1, Arrival: "regular", Spread: string(simulate.Fixed)}
		}},
	}
}

func defaults() *General {
	return &General{
		Seed: 1, Scheduler: "lowrtt", Control: "cubic", MSS: 1460, Overhead: 40, Initial: 10,
		Buffer: "4 MB", AckEvery: 2, AckDelay: 25 * time.Millisecond, Sender: "weft", Lost: "any",
	}
}
