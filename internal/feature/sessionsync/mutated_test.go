package sessionsync_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"weft/internal/mutator"
	wire "weft/wire/sessionsync"
)

// TestMutatedSessions is what another router publishes.
func TestMutatedSessions(t *testing.T) {
	records := make([]wire.Record, 20)
	for i := range records {
		records[i] = wire.Record{What: wire.Put, Translator: "main", Shared: session(uint16(i), time.Hour)}
	}
	var seeds [][]byte
	for _, m := range []*wire.Message{
		{Kind: wire.Begin, Dump: 7}, {Kind: wire.Part, Dump: 7, Records: records}, {Kind: wire.Live, Records: records[:3]},
		{Kind: wire.Live, Records: []wire.Record{{What: wire.Ending, Translator: "main", Shared: session(2, 0)}}}, {Kind: wire.End, Dump: 7},
	} {
		b, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, b)
	}
	mutator.Run(t, mutator.Parser{Name: "session-sync", Seeds: seeds, New: func(r *rand.Rand) mutator.Machine {
		router, now := start("a", newTable(), false, "b"), newClock().now
		router.Opened()
		router.Joined("b", true, now)
		return mutator.Machine{Receive: func(b []byte) {
			router.Received("b", b, r.IntN(64) == 0, 0, now)
			now = now.Add(time.Duration(r.IntN(50)) * time.Millisecond)
			router.Tick(now)
			router.sent, router.asked = nil, nil
			_ = router.Status()
		}}
	}})
}
