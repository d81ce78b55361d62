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

// ErrForeignTable is returned if the host has a table of that name which is not weft's;
// it stays.
var ErrForeignTable = errors.New("the host has its own table of that name in nftables, which weft never replaces")

// listNFTable returns what nft prints of a table; empty: there is none, or no nft.
func listNFTable(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, netfilter.Timeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nft", "list", "table", "inet", name).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// foreignNFTable reports whether a table as listed is another's.
func foreignNFTable(listing string) bool {
	return listing != "" && !strings.Contains(listing, `comment "weft: `)
}

// applyNFTable replaces the table in one transaction: no packet meets half of it, and a
// script that nft refuses changes nothing.
func (k *Kernel) applyNFTable(ctx context.Context, o state.NFTable, remove bool) error {
	foreign := foreignNFTable(listNFTable(ctx, o.Name))
	gone := fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n", o.Name)
	switch {
	case remove && foreign:
		return k.journal.forget(o.Key())
	case remove:
		return errors.Join(runNFT(ctx, gone), k.journal.forget(o.Key()))
	case foreign:
		return fmt.Errorf("%w: table inet %s; delete it (nft delete table inet %[2]s), or load it with another name", ErrForeignTable, o.Name)
	}
	if err := k.journal.note(o.Key(), "none"); err != nil {
		return err
	}
	return runNFT(ctx, gone+fmt.Sprintf("table inet %s {\n\tcomment \"%s\"\n\n%s}\n", o.Name, nfComment(o), o.Body))
}

// observeNFTables reports the tables that weft has made.
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
		switch listing := listNFTable(v.ctx, name); {
		case listing == "" || foreignNFTable(listing): // making it says what is wrong
		case strings.Contains(listing, `comment "`+nfComment(want)+`"`):
			found = append(found, want)
		default:
			found = append(found, state.NFTable{Name: name})
		}
	}
	return found, nil
}
