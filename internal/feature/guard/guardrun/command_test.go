package guardrun

import (
	"net/netip"
	"testing"
	"time"

	"weft/internal/feature/guard"
)

// A list of a million is built up by some hundred thousand at a command (xargs), in
// time that grows with the list and not with its square.
func TestManySourcesAreBlockedAtATime(t *testing.T) {
	const n, atOnce = 1 << 18, 1 << 16
	var all []netip.Prefix
	for i := range uint32(n) {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 16), byte(i >> 8), byte(i)}), 32))
	}
	var list []guard.Blocked
	for i := 0; i < n; i += atOnce {
		list = blockAll(list, all[i:i+atOnce], time.Time{}, "")
	}
	list = blockAll(list, append(all[:10:10], all[:10]...), time.Time{}, "again")
	if len(list) != n || list[n-1].Reason != "again" {
		t.Fatalf("%d sources are blocked, want %d; the last because of %q", len(list), n, list[len(list)-1].Reason)
	}
	if list, err := unblockAll(list, all[:n-1]); err != nil || len(list) != 1 || list[0].Prefix != all[n-1] {
		t.Errorf("%d are left (%v)", len(list), err)
	}
	if _, err := unblockAll(nil, all[:1]); err == nil {
		t.Error("who is not blocked was unblocked")
	}
}
