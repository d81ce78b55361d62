package nat64run

import (
	"cmp"
	"context"
	"slices"
	"time"

	"weft/internal/feature/nat64"
	"weft/internal/syslog"
)

// collector is a sender, and what has been said of it.
type collector struct {
	*syslog.Sender
	away bool
}

// listen logs when collectors cannot be reached any more, and when they can
// again.
func (r *allocationRun) listen() {
	for to, c := range r.senders {
		t := c.Status()
		if away := t.Error != ""; away != c.away {
			c.away = away
			if away {
				r.log.Warn("cannot reach the syslog collector of allocations; messages are queued", "collector", to.To, "error", t.Error)
			} else {
				r.log.Info("the syslog collector of allocations is reachable again", "collector", to.To, "lost", t.Lost)
			}
		}
	}
}

// wait does nothing but listen.
func (r *allocationRun) wait(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.listen()
		}
	}
}

// collectors returns what the metrics show.
func (a *allocations) collectors() (list []nat64.Collector) {
	if a.running == nil {
		return nil
	}
	for to, c := range a.running.senders {
		t := c.Status()
		list = append(list, nat64.Collector{Address: to.To, Sent: t.Sent, Lost: t.Lost, Waiting: t.Waiting, Reached: t.Error == ""})
	}
	// by one address alone: it is a label
	slices.SortFunc(list, func(a, b nat64.Collector) int { return cmp.Compare(a.Address, b.Address) })
	return slices.CompactFunc(list, func(a, b nat64.Collector) bool { return a.Address == b.Address })
}
