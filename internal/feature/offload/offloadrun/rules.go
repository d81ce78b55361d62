package offloadrun

import (
	"context"
	"time"

	"weft/internal/feature/offload"
	"weft/internal/kernel/netfilter"
	"weft/internal/state"
)

// rulesetLook is a look at the ruleset, one at a time: nft may take seconds,
// for which nothing else waits.
type rulesetLook struct {
	due     <-chan time.Time // when to begin one
	looked  chan looked
	running bool
	changes int // of the ruleset, since the start
}

// looked is what was found, and after how many changes.
type looked struct {
	policy    offload.Policy
	refusable offload.Refusable
	changes   int
	failed    string
	err       error
}

const (
	// lookAfter is the pause before the ruleset is looked at: changes come in bursts.
	lookAfter = 50 * time.Millisecond
	// lookAgain is the pause after one that failed.
	lookAgain = 5 * time.Second
)

// changed has the ruleset read again, and discards the result of a read that runs now.
func (l *rulesetLook) changed() {
	l.changes++
	l.due = time.After(lookAfter)
}

// look finds out what of the ruleset flows must not go past.
func (r *offloadRun) look(ctx context.Context) {
	r.rules.due = nil
	if r.rules.running {
		r.rules.due = time.After(lookAfter)
		return
	}
	r.rules.running = true
	found := looked{changes: r.rules.changes}
	r.tasks.Go(func(ctx context.Context) error {
		text, err := r.ruleset(ctx)
		if err != nil {
			found.failed, found.err = "cannot read the ruleset; no flow is offloaded", err
		} else if found.policy, found.refusable, err = readRuleset(text); err != nil {
			found.failed, found.err = "cannot parse the ruleset; no flow is offloaded", err
		}
		select {
		case r.rules.looked <- found:
		case <-ctx.Done():
		}
		return nil
	})
}

// take takes what a look has found, unless the ruleset has changed since.
func (r *offloadRun) take(ctx context.Context, l looked) {
	r.rules.running = false
	switch {
	case l.changes != r.rules.changes || ctx.Err() != nil:
		return
	case l.failed != "":
		r.log.Warn(l.failed, "error", l.err)
		r.service.SetPolicy(offload.Policy{Unknown: true})
		r.rules.due = time.After(lookAgain)
		return
	}
	for _, b := range l.policy.Blocks {
		r.log.Info("a rule keeps flows with the stack", "rule", b.Rule, "why", b.Why)
	}
	r.service.SetPolicy(l.policy)
	if r.refusals != nil {
		for _, b := range l.refusable.Blocks {
			r.log.Info("a rule prevents early drop", "rule", b.Rule, "why", b.Why)
		}
		r.refusals.Take(1<<30, func(state.RefusedPacket) {}) // of whatever ruleset
		r.service.SetRefusable(l.refusable)
	}
}

// readRuleset parses the ruleset. The tables of iptables-legacy, which nft does not list, may
// make the kernel track connections too.
func readRuleset(text []byte) (offload.Policy, offload.Refusable, error) {
	policy, refusable, err := offload.ReadRuleset(text)
	legacy4, legacy6 := netfilter.LegacyTables()
	policy.Tracked4, policy.Tracked6 = policy.Tracked4 || legacy4, policy.Tracked6 || legacy6
	return policy, refusable, err
}
