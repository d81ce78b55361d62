package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/feature/nat64"
	"weft/internal/state"
	"weft/internal/translate"
	"weft/internal/translate/packetgen"
)

// Random fragments and ICMP errors through all of it (programs, stack, slow
// path) leave as the Go reference says, byte for byte but for the
// identification.
func TestRandomHardPacketsLeaveAsTheReferenceSays(t *testing.T) {
	needRoot(t)
	const count = 25
	f, problems := config.Load("weft.toml", []byte(routerFile), append(config.CoreSections(), nat64.Section()))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	reference := nat64.From(f, "main").Reference(f, state.Facts{})
	reference.MTU4, reference.MTU6, reference.DecrementTTL = 1500, 1500, true
	for _, in := range []string{"lan", "wan"} {
		g := packetgen.New(7, reference)
		next := map[string]func() ([]byte, string){"lan": g.Next6, "wan": g.Next4}[in]
		var packets [][]byte
		var kinds []string
		for len(packets) < count {
			pkt, kind := next()
			if isHard(pkt, kind) && !hairpins(reference, pkt) {
				packets, kinds = append(packets, pkt), append(kinds, kind)
			}
		}
		for _, via := range []Via{ViaTC, ViaXDP, ViaSlow} {
			t.Run(fmt.Sprintf("%s-%s", in, via), func(t *testing.T) {
				results := runTrace(t, captureOf(t, true, packets...), "--config", configFile(t, routerFile), "--in", in, "--via", string(via))
				if len(results) != count {
					t.Fatalf("%d results of %d packets", len(results), count)
				}
				forwarded := 0
				for i, r := range results {
					want := leaves(reference, packets[i])
					forwarded += len(want)
					if why := differ(t, r, want); why != "" {
						t.Fatalf("packet %d (%s): %s\n%s, %s, %v\n%x", i+1, kinds[i], why, r.Verdict, r.Reason, r.Decisions, packets[i])
					}
				}
				if forwarded < count/3 {
					t.Errorf("of %d packets only %d came of it", count, forwarded)
				}
			})
		}
	}
}

// isHard picks what goes to the slow path and does not concern the stack: it
// answers for TTLs that end, looks into options, and cuts what is longer than
// the route to the translator, itself.
func isHard(pkt []byte, kind string) bool {
	words := strings.Split(kind, "/")
	has := func(any ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(any, w) })
	}
	fragment := slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "fragment") || w == "atomic" })
	switch {
	case !fragment && !has("icmp-error"), len(pkt) < 40, len(pkt) > 1500:
		return false
	case pkt[0]>>4 == 4:
		return pkt[0] == 0x45 && pkt[8] > 1 && (!fragment || len(pkt) <= 1480)
	}
	return pkt[0]>>4 == 6 && pkt[7] > 1
}

// leaves returns what leaves the router for a packet.
func leaves(c *translate.Config, pkt []byte) [][]byte {
	r := c.Translate4(pkt)
	if pkt[0]>>4 == 6 {
		r = c.Translate6(pkt)
	}
	if r.Reply != nil {
		return [][]byte{r.Reply}
	}
	return r.Out
}

// hairpins reports whether a packet or the answer to it is for a node of the same
// side, for the router itself (which has the first two addresses of its subnet, RFC
// 4291 section 2.6.1), or for a node that is not translated.
func hairpins(c *translate.Config, pkt []byte) bool {
	r := c.Translate4(pkt)
	if pkt[0]>>4 == 6 {
		r = c.Translate6(pkt)
	}
	if r.Outcome.Verdict() == state.Pass {
		return true
	}
	for _, out := range append(slices.Clone(r.Out), r.Reply) {
		if len(out) > 0 && out[0]>>4 == 4 && c.Translate4(out).Outcome != state.PassNotTranslated {
			return true
		}
		if len(out) > 0 && out[0]>>4 == 6 && (c.Translate6(out).Outcome != state.PassNotTranslated || out[39] <= 1) {
			return true
		}
	}
	return false
}

func differ(t *testing.T, r Result, want [][]byte) string {
	t.Helper()
	if len(r.Outputs) != len(want) {
		return fmt.Sprintf("%d packets left, want %d: %v", len(r.Outputs), len(want), r.Outputs)
	}
	for i := range want {
		got := bytes.Clone(unhex(t, r.Outputs[i].Hex))
		if !sameButIDs(got, want[i]) {
			return fmt.Sprintf("packet %d of %d\n got %x\nwant %x", i+1, len(want), got, want[i])
		}
	}
	return ""
}

// sameButIDs also leaves the identification of a quoted packet out.
func sameButIDs(a, b []byte) bool {
	a, b = bytes.Clone(a), bytes.Clone(b)
	for _, p := range [][]byte{a, b} {
		if len(p) < 48 || p[0]>>4 != 4 || p[9] != 1 || p[6]&0x3f|p[7] != 0 {
			continue
		}
		switch p[20] {
		case 3, 11, 12: // an error: its checksum covers the quoted header
			clear(p[22:24])
			clear(p[32:34])
			clear(p[38:40])
		}
	}
	return sameButID(a, b)
}
