package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os/exec"
	"strings"

	"weft/internal/kernel/netfilter"
	"weft/internal/state"
)

// nfComment is the comment of a table, by which weft knows it again, and what it holds.
func nfComment(o state.NFTable) string {
	h := fnv.New64a()
	h.Write([]byte(o.Body))
	return fmt.Sprintf("weft: made of %s, content %016x", o.Owner, h.Sum64())
}

// applyNFTable replaces the table in one transaction: no packet meets half of it, and a
// script that nft refuses changes nothing.
func (k *Kernel) applyNFTable(ctx context.Context, o state.NFTable, remove bool) error {
	gone := fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n", o.Name)
	if remove {
		return errors.Join(runNFT(ctx, gone), k.journal.forget(o.Key()))
	}
	if err := k.journal.note(o.Key(), "none"); err != nil {
		return err
	}
	return runNFT(ctx, gone+fmt.Sprintf("table inet %s {\n\tcomment \"%s\"\n\n%s}\n", o.Name, nfComment(o), o.Body))
}

// observeNFTables reports the tables that weft has made, or wants to make.
func (k *Kernel) observeNFTables(v *view) (found []state.NFTable, err error) {
	tables := map[string]state.NFTable{}
	for key := range k.journal.was {
		if name, ok := strings.CutPrefix(key, state.NFTable{}.Key()); ok {
			tables[name] = state.NFTable{Name: name}
		}
	}
	for _, o := range v.want {
		if t, ok := o.(state.NFTable); ok {
			tables[t.Name] = t
		}
	}
	for name, want := range tables {
		ctx, cancel := context.WithTimeout(v.ctx, netfilter.Timeout)
		out, err := exec.CommandContext(ctx, "nft", "list", "table", "inet", name).Output()
		cancel()
		switch {
		case err != nil: // none, or no nft: making it says so
		case strings.Contains(string(out), `comment "`+nfComment(want)+`"`):
			found = append(found, want)
		case strings.Contains(string(out), `comment "weft: `):
			found = append(found, state.NFTable{Name: name})
		default:
			return nil, fmt.Errorf("there is a table inet %s that is not weft's: give it another name (nft rename is not there: list it, change the name, load it)", name)
		}
	}
	return found, nil
}
