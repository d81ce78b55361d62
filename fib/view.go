package fib

import "fmt"

// View4 and View6 return a read-only table on words that another table of the family
// has filled and that are not changed meanwhile. Lookup and Explain work; Stats
// knows the structure but not the number of prefixes.
func View4(words []uint32) (*Table, error) { return view(ipv4, MinWords4, words) }

// View6 is View4 for IPv6.
func View6(words []uint32) (*Table, error) { return view(ipv6, MinWords6, words) }

func view(f family, least int, words []uint32) (*Table, error) {
	if len(words) < least || len(words) > MaxWords {
		return nil, fmt.Errorf("look into an IPv%d table of %d words: it has between %d and %d", f, len(words), least, MaxWords)
	}
	t := &Table{family: f, root: headWords, hidden: newHidden(), jumps: f == ipv6}
	t.words = words
	if v := t.load(headVersion); v != LayoutVersion {
		return nil, fmt.Errorf("look into an IPv%d table of layout %d: this weft knows layout %d", f, v, LayoutVersion)
	}
	return t, nil
}
