package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// BrowseOptions describe a household's use of the network.
type BrowseOptions struct {
	Connections int           // at a time
	For         time.Duration // new ones begin until then; those under way come to their end
	Short, Long int64         // bytes of transfers
	Timeout     time.Duration // for a transfer, and for the echo of a datagram
}

// Browsing is the result.
type Browsing struct {
	Transfers int      `json:"transfers"` // TCP connections
	Intact    int      `json:"intact"`    // those whose bytes arrived whole
	Datagrams int      `json:"datagrams"`
	Answered  int      `json:"answered"`
	Problems  []string `json:"problems,omitempty"` // the first of each kind of use
}

// use is the kind of a connection: of ten, six are short transfers, one is a long
// one, and three exchange datagrams, as QUIC does.
func use(n int) string {
	switch n % 10 {
	case 3, 6, 9:
		return "datagrams"
	case 5:
		return "long"
	}
	return "short"
}

// browser gathers results.
type browser struct {
	BrowseOptions
	targets []netip.AddrPort
	mu      sync.Mutex
	result  Browsing
	said    map[string]bool
}

// Browse keeps that many connections busy at a time, to the targets in turn. Each
// transfer and each datagram is compared with what was sent.
func Browse(ctx context.Context, targets []netip.AddrPort, o BrowseOptions, seed [32]byte) Browsing {
	b := &browser{BrowseOptions: o, targets: targets, said: map[string]bool{}}
	random := rand.New(rand.NewChaCha8(seed))
	end := time.Now().Add(o.For)
	var all sync.WaitGroup
	for n := range o.Connections {
		var own [32]byte
		for i := range own {
			own[i] = byte(random.Uint32())
		}
		start := time.Duration(random.Int64N(int64(max(o.For/4, 1))))
		all.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(start):
			}
			for again := 0; ctx.Err() == nil && (again == 0 || time.Now().Before(end)); again++ {
				own[0]++
				b.once(ctx, n, targets[(n/10+again)%len(targets)], own)
			}
		})
	}
	all.Wait()
	return b.result
}

func (b *browser) once(ctx context.Context, n int, to netip.AddrPort, seed [32]byte) {
	kind := use(n)
	if kind == "datagrams" {
		sizes := make([]int, 20)
		for i := range sizes {
			sizes[i] = 40 + int(seed[i])*4 // as large as QUIC's at most
		}
		d, err := Exchange(ctx, to, sizes, 1, min(b.Timeout, 10*time.Second), seed)
		b.note(kind, 0, 0, len(sizes), d.Intact, err, d.Problem)
		return
	}
	length, direction := b.Short, Download
	if kind == "long" {
		length = b.Long
	}
	if n%4 == 1 {
		direction = Upload
	}
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	t, err := Move(ctx, to, Moving{Direction: direction, Length: length}, seed)
	whole := 0
	if err == nil && t.Same {
		whole = 1
	}
	b.note(kind, 1, whole, 0, 0, err, "")
}

func (b *browser) note(kind string, transfers, intact, datagrams, answered int, err error, problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result.Transfers += transfers
	b.result.Intact += intact
	b.result.Datagrams += datagrams
	b.result.Answered += answered
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && !b.said[kind] {
		b.said[kind] = true
		b.result.Problems = append(b.result.Problems, fmt.Sprintf("%s: %s", kind, problem))
	}
}
