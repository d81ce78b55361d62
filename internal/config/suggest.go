package config

import (
	"fmt"
	"strings"
)

// closest returns the candidate that a typing error may have turned into word, or
// that word abbreviates or spells out.
func closest(word string, candidates []string) (string, bool) {
	best, least := "", 1+max(1, len(word)/3)
	for _, c := range candidates {
		d := distance(strings.ToLower(word), strings.ToLower(c))
		if d < least && d < len(c) {
			best, least = c, d
		}
	}
	for _, c := range candidates {
		short, long := min(len(word), len(c)), max(len(word), len(c))
		if best == "" && short >= 3 && long <= 2*short && (strings.HasPrefix(word, c) || strings.HasPrefix(c, word)) {
			best = c
		}
	}
	return best, best != ""
}

// didYouMean is the remedy for a word that is none of the candidates.
func didYouMean(word string, candidates []string) string {
	if c, ok := closest(word, candidates); ok {
		return fmt.Sprintf("did you mean %s?", c)
	}
	if len(candidates) == 0 {
		return ""
	}
	return "one of " + strings.Join(candidates, ", ")
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour to get from a to b (optimal string alignment). It gives up on long
// words, which are no typing errors of anything.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return long
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	var older []int
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, before, row = before, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(before[j]+1, row[j-1]+1, before[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// Suggest is the remedy for a reference to something that is none of the known
// names.
func Suggest(name string, known []string) string {
	if len(known) == 0 {
		return "there are none yet"
	}
	return didYouMean(name, known)
}
