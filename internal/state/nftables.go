package state

import (
	"fmt"
	"strings"
)

// NFTable is a table of nftables, of family inet, that weft owns as a whole.
type NFTable struct {
	Name  string
	Owner string // section of weft.toml that it serves
	Body  string // what stands between its braces, in the language of nft
}

// FirewallTable is the table of [firewall].
const FirewallTable = "weft"

func (t NFTable) Key() string    { return "nftables-table inet " + t.Name }
func (t NFTable) Domain() Domain { return Kernel }
func (t NFTable) String() string {
	return fmt.Sprintf("%s of %d lines for %s", t.Key(), strings.Count(t.Body, "\n"), t.Owner)
}
