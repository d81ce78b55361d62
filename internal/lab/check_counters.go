package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// checkCounters reads `weft show counters` in a node: the table to show, and the
// JSON to compare with the expected counts.
func (l *Lab) checkCounters(ctx context.Context, c Check, r *Result) error {
	r.Tried = "weft show counters in " + c.Node
	table, err := l.run(ctx, c.Node, "{weft}", "show", "counters")
	if err != nil {
		return err
	}
	r.Table = strings.Split(strings.TrimRight(string(table), "\n"), "\n")
	raw, err := l.run(ctx, c.Node, "{weft}", "show", "counters", "--json")
	if err != nil {
		return err
	}
	counts, err := readCounters(raw)
	if err != nil {
		return err
	}
	r.fact("counters", counts)
	var missing []string
	for _, name := range c.Counted {
		if counts[name] == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("nothing was counted as %s", strings.Join(missing, ", "))
	}
	r.OK = true
	r.Outcome = fmt.Sprintf("%d counters above zero", len(counts))
	return nil
}

// readCounters reads name and number from the rows of `weft show counters --json`:
// objects in an array or one a line. Rows of one name, one for each interface, are
// added. Zeros are omitted.
func readCounters(raw []byte) (map[string]uint64, error) {
	rows, err := readRows(raw)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	counts := map[string]uint64{}
	for _, row := range rows {
		name, ok := firstOf[string](row, "name", "outcome", "counter")
		if !ok {
			return nil, fmt.Errorf("read counters: a row without a name: %v", row)
		}
		n, ok := firstOf[json.Number](row, "packets", "count", "value")
		if !ok {
			return nil, fmt.Errorf("read counters: %s has no number", name)
		}
		v, err := n.Int64()
		if err != nil || v < 0 {
			return nil, fmt.Errorf("read counters: %s is %s, which is no count", name, n)
		}
		if v > 0 {
			counts[name] += uint64(v)
		}
	}
	return counts, nil
}

func readRows(raw []byte) ([]map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var rows []map[string]any
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		items, ok := v.([]any)
		if !ok {
			items = []any{v}
		}
		for _, item := range items {
			row, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%v is not an object", item)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func firstOf[T any](row map[string]any, keys ...string) (T, bool) {
	i := slices.IndexFunc(keys, func(k string) bool { _, ok := row[k].(T); return ok })
	if i < 0 {
		var none T
		return none, false
	}
	return row[keys[i]].(T), true
}
