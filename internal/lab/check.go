package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Result is the result of a check.
type Result struct {
	Check   string   `json:"check"` // its name
	Kind    string   `json:"kind"`
	OK      bool     `json:"ok"`
	Tried   string   `json:"tried"`   // what was done, in one line
	Outcome string   `json:"outcome"` // what came of it, in one line
	Facts   Facts    `json:"facts"`
	Table   []string `json:"table,omitempty"` // lines to show as they are
	Seconds float64  `json:"seconds"`
}

// Fact is one thing measured.
type Fact struct {
	Key   string
	Value any
}

// Facts keep their order, also as a JSON object.
type Facts []Fact

// MarshalJSON writes one object.
func (f Facts) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, fact := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(fact.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(fact.Value)
		if err != nil {
			return nil, fmt.Errorf("fact %s: %w", fact.Key, err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (r *Result) fact(key string, value any) { r.Facts = append(r.Facts, Fact{key, value}) }

// limit is the longest that a check may take.
const limit = 2 * time.Minute

// limit is how long a check may take. A whole machine that is emulated takes longer.
func (l *Lab) limit(c Check) time.Duration {
	n := l.scenario.node(c.Node)
	switch {
	case c.Kind == CheckReboot && n != nil:
		return limit + l.patience(n.Init != "")
	case n != nil && n.Init != "":
		return 3 * limit
	}
	return limit
}

// Check runs one check. A failure on the way fails the check; the error is only for
// the end of ctx.
func (l *Lab) Check(ctx context.Context, c Check) (Result, error) {
	r := Result{Check: c.Name, Kind: string(c.Kind)}
	begin := time.Now()
	limit := l.limit(c)
	inner, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %s", limit))
	defer cancel()
	var err error
	switch c.Kind {
	case CheckPing:
		err = l.checkPing(inner, c, &r)
	case CheckTransfer:
		err = l.checkTransfer(inner, c, &r)
	case CheckUDP:
		err = l.checkUDP(inner, c, &r)
	case CheckPMTU:
		err = l.checkPMTU(inner, c, &r)
	case CheckObserve:
		err = l.checkObserve(inner, c, &r)
	case CheckExec:
		err = l.checkExec(inner, c, &r)
	case CheckCounters:
		err = l.checkCounters(inner, c, &r)
	case CheckTakeover:
		err = l.checkTakeover(inner, c, &r)
	case CheckKill:
		err = l.checkKill(inner, c, &r)
	case CheckRevive:
		err = l.checkRevive(inner, c, &r)
	case CheckReboot:
		err = l.checkReboot(inner, c, &r)
	case CheckReload:
		err = l.checkReload(inner, c, &r)
	default:
		err = fmt.Errorf("no way is known to do a %q check", c.Kind)
	}
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if err != nil {
		r.OK, r.Outcome = false, err.Error()
	}
	r.Seconds = time.Since(begin).Seconds()
	return r, nil
}

// Casualties returns a failed result for each process that ended unexpectedly.
func (l *Lab) Casualties() []Result {
	var rs []Result
	for _, p := range l.processes {
		if p.ended() {
			rs = append(rs, Result{
				Check: fmt.Sprintf("%s in %s runs to the end", p.name, p.node), Kind: "process",
				Tried: "looked whether it is still there", Outcome: p.failure().Error(),
			})
		}
	}
	return rs
}

// probe runs `weft probe` in a node and reads its answer into v.
func (l *Lab) probe(ctx context.Context, node string, v any, args ...string) error {
	out, err := l.run(ctx, node, append([]string{"{weft}", "probe"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, v); err != nil {
		return fmt.Errorf("read answer of probe %s: %w", args[0], err)
	}
	return nil
}

func (l *Lab) checkExec(ctx context.Context, c Check, r *Result) error {
	r.Tried = fmt.Sprintf("in %s: %s", c.Node, strings.Join(c.Argv, " "))
	out, err := l.run(ctx, c.Node, c.Argv...)
	text := strings.TrimRight(string(out), "\n")
	r.fact("output", text)
	r.fact("succeeded", err == nil)
	if text != "" {
		r.Table = strings.Split(text, "\n")
	}
	switch {
	case (err != nil) != c.Fails && err != nil:
		return err
	case (err != nil) != c.Fails:
		r.Outcome = "it succeeded, and should have failed"
	case !strings.Contains(text, c.Expect):
		r.Outcome = fmt.Sprintf("%q is not in the output", c.Expect)
	default:
		r.OK, r.Outcome = true, "as expected"
	}
	return nil
}
