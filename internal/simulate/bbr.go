package simulate

import "time"

// bbr follows the first version of BBR (N. Cardwell, Y. Cheng, C. S. Gunn, S. H.
// Yeganeh, V. Jacobson, "BBR: Congestion-Based Congestion Control", ACM Queue
// 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00): the bottleneck's
// rate is the largest delivery rate of ten rounds, the delay the shortest round
// trip of ten seconds. Left out: long-term sampling of policers, and the exact
// restoring of the window after recovery. The gain cycle begins at a fixed phase.
type bbr struct {
	mss, initial int64
	state        bbrState
	rates        [bbrRounds]int64 // the largest sample of each round, bytes a second
	round        int
	least        time.Duration // shortest round trip
	leastAt      Time
	pacing, gain int64 // 1/256
	full         int64 // rate at which the pipe last grew
	flat         int   // rounds since
	phase        int
	phaseAt      Time
	probeEnd     Time
}

type bbrState uint8

const (
	bbrStartup bbrState = iota
	bbrDrain
	bbrProbeRate
	bbrProbeDelay
)

const (
	bbrRounds   = 10
	bbrUnit     = 256
	bbrHigh     = 739 // 2/ln 2
	bbrLow      = 89  // ln 2 / 2
	bbrProbing  = 10 * time.Second
	bbrProbe    = 200 * time.Millisecond
	bbrFewest   = 4 // packets
	bbrSteady   = 2 * bbrUnit
	bbrFlatFull = 3
)

func (b *bbr) acked(a acked) {
	b.sample(a)
	switch b.state {
	case bbrStartup:
		if a.round && !a.limited {
			b.checkFull()
		}
	case bbrDrain:
		if a.flight-a.bytes <= b.product(bbrUnit) {
			b.enter(bbrProbeRate, a.now)
		}
	case bbrProbeRate:
		b.cycle(a)
	case bbrProbeDelay:
		if a.now >= b.probeEnd && a.round {
			b.leastAt = a.now
			b.enter(bbrProbeRate, a.now)
		}
	}
	if b.state != bbrProbeDelay && b.least != never && a.now-b.leastAt > bbrProbing {
		b.least = never
		if a.rtt > 0 {
			b.least = a.rtt
		}
		b.leastAt = a.now
		b.enter(bbrProbeDelay, a.now)
	}
}

func (b *bbr) sample(a acked) {
	if a.rtt > 0 && a.rtt <= b.least {
		b.least, b.leastAt = a.rtt, a.now
	}
	if a.round {
		b.round = (b.round + 1) % bbrRounds
		b.rates[b.round] = 0
	}
	if a.rate > 0 && (!a.limited || a.rate > b.rate()) {
		b.rates[b.round] = max(b.rates[b.round], a.rate)
	}
}

func (b *bbr) rate() int64 {
	var most int64
	for _, r := range b.rates {
		most = max(most, r)
	}
	return most
}

// checkFull ends startup when the rate has not grown by a quarter in three rounds.
func (b *bbr) checkFull() {
	if r := b.rate(); r*4 >= b.full*5 {
		b.full, b.flat = r, 0
		return
	}
	if b.flat++; b.flat >= bbrFlatFull {
		b.state, b.pacing = bbrDrain, bbrLow
	}
}

func (b *bbr) enter(s bbrState, now Time) {
	b.state = s
	switch s {
	case bbrProbeRate:
		b.gain, b.phase, b.phaseAt = bbrSteady, 2, now
		b.pacing = bbrUnit
	case bbrProbeDelay:
		b.pacing, b.probeEnd = bbrUnit, now+bbrProbe
	}
}

// cycle goes through the gains 5/4, 3/4, 1, 1, 1, 1, 1, 1, each for a round trip.
func (b *bbr) cycle(a acked) {
	over := a.now-b.phaseAt > b.least
	if b.phase == 1 && a.flight <= b.product(bbrUnit) {
		over = true // drained already
	}
	if !over {
		return
	}
	b.phase = (b.phase + 1) % 8
	b.phaseAt = a.now
	b.pacing = bbrUnit
	switch b.phase {
	case 0:
		b.pacing = bbrUnit * 5 / 4
	case 1:
		b.pacing = bbrUnit * 3 / 4
	}
}

// product returns the bandwidth-delay product times a gain, bytes.
func (b *bbr) product(gain int64) int64 {
	r := b.rate()
	if r == 0 || b.least == never {
		return b.initial
	}
	return mulDiv(mulDiv(r, int64(b.least), 1e9), gain, bbrUnit)
}

func (b *bbr) window() int64 {
	if b.state == bbrProbeDelay {
		return bbrFewest * b.mss
	}
	// three packets more for acknowledgements that come in bunches
	return max(b.product(b.gain)+3*b.mss, bbrFewest*b.mss)
}

func (b *bbr) pace() int64 {
	r := b.rate()
	if r == 0 {
		return 0
	}
	return max(1, mulDiv(r, b.pacing, bbrUnit))
}

// lost does nothing: the first version reacts to rates and delays only.
func (b *bbr) lost(Time) {}

func (b *bbr) timeout() {
	*b = bbr{mss: b.mss, initial: b.initial, gain: bbrHigh, pacing: bbrHigh, least: never}
}
