package netfilter

import (
	"bytes"
	"os"
)

// LegacyTables reports whether iptables-legacy and ip6tables-legacy have tables in this
// network namespace. nft does not list them.
func LegacyTables() (ipv4, ipv6 bool) {
	return hasLines("/proc/self/net/ip_tables_names"), hasLines("/proc/self/net/ip6_tables_names")
}

// hasLines is false for a file that is not there: a kernel without such tables has none.
func hasLines(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && len(bytes.TrimSpace(text)) > 0
}
