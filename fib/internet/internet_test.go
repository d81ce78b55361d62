package internet

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

const list = "# a comment\n192.0.2.0/24\n\n2001:db8::1/32\n"

func TestReadTakesPlainAndPackedLists(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(list)); err != nil {
		t.Fatal(err)
	}
	z.Close()
	for name, text := range map[string]string{"plain": list, "packed": packed.String()} {
		table, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(table.IPv4) != 1 || len(table.IPv6) != 1 || table.IPv6[0] != netip.MustParsePrefix("2001:db8::/32") {
			t.Errorf("%s: %v", name, table)
		}
	}
}

func TestReadNamesTheLineThatIsNoPrefix(t *testing.T) {
	_, err := Read(strings.NewReader("192.0.2.0/24\n192.0.2.0/33\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error is %v", err)
	}
}

func TestGenerateHasTheRealNumbersAndNoPrefixTwice(t *testing.T) {
	const scale = 50
	table := Generate(rand.New(rand.NewPCG(1, 1)), scale)
	for f, prefixes := range map[string][]netip.Prefix{"IPv4": table.IPv4, "IPv6": table.IPv6} {
		lengths, seen := map[int]int{}, map[netip.Prefix]bool{}
		for _, p := range prefixes {
			if p != p.Masked() || seen[p] {
				t.Fatalf("%s has host bits or is there twice", p)
			}
			seen[p] = true
			lengths[p.Bits()]++
		}
		want := lengths4
		if f == "IPv6" {
			want = lengths6
		}
		for length, n := range want {
			if lengths[length] != n/scale {
				t.Errorf("%s has %d prefixes of length %d, want %d", f, lengths[length], length, n/scale)
			}
		}
	}
}
