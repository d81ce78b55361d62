package scenario

import (
	"fmt"
	"slices"

	"weft/internal/simulate"
	"weft/schedule"
)

// compiler turns a Spec into a Setup and collects what is wrong with it.
type compiler struct {
	refuse func(path, what, remedy string)
	read   func(name string) ([]byte, error) // files that the scenario names
}

func (c compiler) compile(s *Spec) simulate.Setup {
	g := s.General
	out := simulate.Setup{
		Seed: uint64(g.Seed), End: g.End, Scheduler: g.Scheduler, Congestion: g.Control,
		MSS: g.MSS, Overhead: g.Overhead, InitialWindow: g.Initial,
		AckEvery: int(g.AckEvery), AckDelay: g.AckDelay, SamePath: g.Lost == "same", Linux: g.Sender == "linux",
	}
	if _, err := schedule.New(g.Scheduler); err != nil {
		c.refuse("scenario.scheduler", err.Error(), "")
	}
	if n := c.size("scenario.receive_buffer", g.Buffer); n < simulate.Unlimited {
		out.ReceiveBuffer = n
		if n > 0 && n < 2*g.MSS {
			c.refuse("scenario.receive_buffer", "holds less than two packets", fmt.Sprintf("at least \"%d bytes\"", 2*g.MSS))
		}
	}
	if len(s.Paths) == 0 {
		c.refuse("", "there is no path", "add a section like [path.dsl]")
	}
	if len(s.Paths) > schedule.MaxPaths {
		c.refuse("path", fmt.Sprintf("%d paths are too many", len(s.Paths)), fmt.Sprintf("at most %d", schedule.MaxPaths))
	}
	if len(s.Streams) == 0 {
		c.refuse("", "there is nothing to send", "add a section like [stream.download]")
	}
	for _, p := range s.Paths {
		out.Paths = append(out.Paths, c.path("path."+p.Name, p.Name, p.Value, g))
	}
	for _, p := range s.Streams {
		out.Sources = append(out.Sources, c.stream("stream."+p.Name, p.Name, p.Value, g.End > 0))
	}
	return out
}

func (c compiler) size(path, text string) int64 {
	n, err := parseSize(text)
	if err != nil {
		c.refuse(path, fmt.Sprintf("%q is not a number of bytes", text), err.Error())
	}
	return n
}

func (c compiler) share(path, text string) uint32 {
	n, err := parseShare(text)
	if err != nil {
		c.refuse(path, fmt.Sprintf("%q is not a percentage", text), err.Error())
	}
	return n
}

func (c compiler) path(at, name string, p *Path, g *General) simulate.PathSetup {
	out := simulate.PathSetup{
		Name: name, Delay: p.Delay, Back: p.Back, Jitter: p.Jitter, Weight: uint32(p.Weight),
		CoDel: p.Manage == "codel", Target: codelTarget, Interval: codelInterval,
		AckLoss: c.share(at+".ack_loss", p.AckLoss),
		Loss: simulate.Loss{
			Good: c.share(at+".loss", p.Loss), Bad: c.share(at+".burst.loss", p.Burst.Loss),
			Enter: c.share(at+".burst.enter", p.Burst.Enter), Leave: c.share(at+".burst.leave", p.Burst.Leave),
		},
	}
	if p.Back == 0 {
		out.Back = p.Delay
	}
	if out.Loss.Good == 1_000_000 {
		c.refuse(at+".loss", "loses everything", `for a path that is down, write down = ["0s-10s"]`)
	}
	if (out.Loss.Enter > 0) != (out.Loss.Leave > 0) || (out.Loss.Enter > 0) != (out.Loss.Bad > 0) {
		c.refuse(at+".burst", "is not complete", `like burst = { enter = "0.1%", leave = "10%", loss = "50%" }`)
	}
	out.Queue = c.size(at+".queue", p.Queue)
	if packet := g.MSS + g.Overhead; out.Queue > 0 && out.Queue < packet {
		c.refuse(at+".queue", "has no room for one packet", fmt.Sprintf("at least \"%d bytes\"", packet))
	}
	c.service(at, p, &out)
	for i, d := range p.Down {
		c.down(fmt.Sprintf("%s.down[%d]", at, i), d, &out)
	}
	return out
}

func (c compiler) service(at string, p *Path, out *simulate.PathSetup) {
	switch {
	case p.Rate == "" && p.Trace == "":
		c.refuse(at, "has no rate", `add one, like rate = "20 Mbit/s"`)
	case p.Rate != "" && p.Trace != "":
		c.refuse(at+".trace", "a path has a rate or a trace", "keep one of the two")
	case p.Rate != "":
		r, err := parseRate(p.Rate)
		if err != nil {
			c.refuse(at+".rate", fmt.Sprintf("%q is not a rate", p.Rate), err.Error())
		}
		out.Rate = r
	default:
		text, err := c.read(p.Trace)
		if err == nil {
			out.Trace, err = parseTrace(text)
		}
		if err != nil {
			c.refuse(at+".trace", err.Error(), "a trace has a line of milliseconds for each packet")
		}
	}
}

func (c compiler) down(at, text string, out *simulate.PathSetup) {
	from, to, err := parseSpan(text)
	if err != nil {
		c.refuse(at, fmt.Sprintf("%q is not a span of time", text), err.Error())
		return
	}
	if n := len(out.Changes); n > 0 && from <= out.Changes[n-1].At {
		c.refuse(at, "begins before the one before it has ended", "write them in order, apart from each other")
		return
	}
	if from == 0 && len(out.Changes) == 0 {
		out.StartDown = true
	} else {
		out.Changes = append(out.Changes, simulate.Change{At: from})
	}
	out.Changes = append(out.Changes, simulate.Change{At: to, Up: true})
}

func (c compiler) stream(at, name string, s *Stream, ends bool) simulate.Source {
	out := simulate.Source{
		Name: name, First: s.First, Every: s.Every, Count: int(s.Count), Last: s.Last, Poisson: s.Arrival == "poisson",
		Spread: simulate.Spread(s.Spread), Priority: s.Priority, Weight: uint32(s.Weight), Deadline: s.Deadline,
	}
	switch {
	case s.Size == "" && s.Page == "":
		c.refuse(at, "has no size", `add one, like size = "1 MB"`)
	case s.Size != "" && s.Page != "":
		c.refuse(at+".page", "a stream has a size or is a page", "keep one of the two")
	case s.Size != "":
		out.Size = c.size(at+".size", s.Size)
	default:
		c.page(at+".page", s.Page, &out)
	}
	if out.Size == simulate.Unlimited && !ends {
		c.refuse(at+".size", "is unlimited, so the run would not end", `add end = "60s" to [scenario]`)
	}
	if out.Size == simulate.Unlimited && s.Spread != string(simulate.Fixed) {
		c.refuse(at+".sizes", "there is no mean of unlimited sizes", `write sizes = "fixed"`)
	}
	if s.Every == 0 && (s.Count == 0 || out.Poisson) {
		c.refuse(at+".every", "is missing: all would arrive at once, without end", `like every = "200ms"`)
	}
	if s.Every > 0 && s.Count == 0 && s.Last == 0 && !ends {
		c.refuse(at+".count", "streams would come without end", `add count, last, or end = "60s" to [scenario]`)
	}
	return out
}

func (c compiler) page(at, name string, out *simulate.Source) {
	text, err := c.read(name)
	if err == nil {
		out.Page, err = parsePage(text)
	}
	if err != nil {
		c.refuse(at, err.Error(), `a page has a line "NAME AFTER MILLISECONDS BYTES" for each object`)
		return
	}
	if !slices.ContainsFunc(out.Page, func(i simulate.Item) bool { return i.After < 0 }) {
		c.refuse(at, "no object begins the page", "write - in the second column of the first one")
	}
}
