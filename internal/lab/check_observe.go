package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vishvananda/netlink"

	"weft/internal/lab/probe"
)

// checkObserve pings while it captures, beginning with empty neighbour tables, so
// that ARP and neighbour discovery are seen.
func (l *Lab) checkObserve(ctx context.Context, c Check, r *Result) error {
	if c.Count == 0 {
		c.Count = 1
	}
	r.Tried = fmt.Sprintf("ping %s from %s, watched at %s", c.To, c.From, placeNames(c.Places))
	if err := l.forgetNeighbours(); err != nil {
		return err
	}
	watches, err := l.watchAll(ctx, c.Places)
	if err != nil {
		return err
	}
	e, pingErr := l.ping(ctx, c)
	seen := make([][]probe.Frame, len(watches))
	for i, w := range watches {
		frames, err := w.stop()
		if err != nil {
			return err
		}
		seen[i] = frames
	}
	if pingErr != nil {
		return pingErr
	}
	r.fact("received", e.Received)
	observed := map[string][]probe.Frame{}
	for i, p := range c.Places {
		observed[p.String()] = seen[i]
	}
	r.fact("frames", observed)
	r.Table = frameTable(c.Places, seen)
	if e.Received != c.Count {
		return fmt.Errorf("%d of %d came back", e.Received, c.Count)
	}
	if err := requestsSeen(c, seen); err != nil {
		return err
	}
	r.OK = true
	r.Outcome = fmt.Sprintf("%d of %d came back; the request was seen at every place", e.Received, e.Sent)
	if c.Routed {
		r.Outcome += ", with the same IP addresses and new MAC addresses"
	}
	return nil
}

func placeNames(ps []Place) string {
	words := make([]string, len(ps))
	for i, p := range ps {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}

// request finds the first echo request.
func request(frames []probe.Frame) (probe.Frame, bool) {
	for _, f := range frames {
		if f.Words == "echo request" {
			return f, true
		}
	}
	return probe.Frame{}, false
}

// requestsSeen compares the check's claims with the echo request as each place saw
// it, in the order of the places.
func requestsSeen(c Check, seen [][]probe.Frame) error {
	var before probe.Frame
	for i, p := range c.Places {
		f, ok := request(seen[i])
		if !ok {
			return fmt.Errorf("no echo request passed %s", p)
		}
		if c.Routed && i > 0 {
			was := c.Places[i-1]
			switch {
			case f.From != before.From || f.To != before.To:
				return fmt.Errorf("the IP addresses at %s are not those at %s", p, was)
			case f.Source == before.Source || f.Destination == before.Destination:
				return fmt.Errorf("a MAC address at %s is one of %s", p, was)
			case f.HopLimit >= before.HopLimit:
				return fmt.Errorf("the hop limit at %s is not lower than at %s", p, was)
			}
		}
		before = f
	}
	return nil
}

// frameTable shows the frames that passed each place, without those that are not
// about the ping.
func frameTable(places []Place, seen [][]probe.Frame) []string {
	var lines []string
	for i, p := range places {
		lines = append(lines, p.String())
		for _, f := range seen[i] {
			switch f.Kind {
			case "arp", "nd":
				lines = append(lines, fmt.Sprintf("  %s > %s   %-4s %s", f.Source, f.Destination, f.Kind, f.Words))
			case "icmp", "icmpv6":
				if !strings.HasPrefix(f.Words, "echo") {
					continue
				}
				lines = append(lines, fmt.Sprintf("  %s > %s   ip   %s > %s  %s, hop limit %d", f.Source, f.Destination, f.From, f.To, f.Words, f.HopLimit))
			}
		}
	}
	return lines
}

func (l *Lab) forgetNeighbours() error {
	for node := range l.spaces {
		err := l.withNetlink(node, func(h *netlink.Handle) error {
			all, err := h.NeighList(0, 0)
			if err != nil {
				return err
			}
			for _, n := range all {
				if n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
					continue
				}
				// One that times out meanwhile is as good as deleted.
				_ = h.NeighDel(&n)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("forget neighbours in %s: %w", node, err)
		}
	}
	return nil
}

// watch is a `weft probe capture` that runs in a node.
type watch struct {
	place    Place
	lifeline io.Closer
	ended    chan error
	frames   []probe.Frame // read after ended
}

func (l *Lab) watchAll(ctx context.Context, places []Place) ([]*watch, error) {
	var all []*watch
	for _, p := range places {
		w, err := l.watch(ctx, p)
		if err != nil {
			for _, w := range all {
				_, _ = w.stop()
			}
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

func (l *Lab) watch(ctx context.Context, p Place) (*watch, error) {
	c := l.command(ctx, p.Node, []string{"{weft}", "probe", "capture", p.Device})
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := l.spaces[p.Node].Start(c); err != nil {
		return nil, fmt.Errorf("watch %s: %w", p, err)
	}
	w := &watch{place: p, lifeline: in, ended: make(chan error, 1)}
	lines := json.NewDecoder(bufio.NewReader(out))
	var ready struct{}
	first := lines.Decode(&ready)
	go func() {
		err := w.collect(lines)
		w.ended <- errors.Join(err, c.Wait())
	}()
	if first != nil {
		_, err := w.stop()
		return nil, errors.Join(fmt.Errorf("watch %s: %w", p, first), err)
	}
	return w, nil
}

func (w *watch) collect(lines *json.Decoder) error {
	for {
		var f probe.Frame
		err := lines.Decode(&f)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.frames = append(w.frames, f)
	}
}

func (w *watch) stop() ([]probe.Frame, error) {
	w.lifeline.Close()
	if err := <-w.ended; err != nil {
		return nil, fmt.Errorf("watch %s: %w", w.place, err)
	}
	return w.frames, nil
}
