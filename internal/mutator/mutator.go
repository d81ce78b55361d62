// Package mutator attacks the parsers that the network reaches: it makes sequences of
// mutated messages out of valid ones, feeds them to state machines, and asserts that
// none panics, none takes long and no memory stays. A package with a parser has a test
// of one line, TestMutated..., and internal/archtest lists them all.
//
// WEFT_MUTATED is how many mutated messages a parser gets (default: its Short), and
// WEFT_MUTATOR_SEED makes others than the usual ones. CPU time is asserted, and memory
// measured, only if WEFT_MUTATED is set, as make prove does.
package mutator

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Parser is one parser, with the state machine behind it.
type Parser struct {
	Name   string
	Seeds  [][]byte              // valid messages, in the order of a usual exchange
	Format Format                // how a message is divided; nil: it is bytes
	Seal   func(b []byte) []byte // restores lengths and checksums; nil: there are none
	Most   int                   // bytes of a message; zero: what UDP carries
	Short  int                   // mutated messages in make test; zero: 5000
	Beside bool                  // a message is worked on in other goroutines too
	// New makes a state machine. r is for all that is to differ between machines, so that
	// the same seed makes the same history.
	New func(r *rand.Rand) Machine
}

// Machine is a state machine.
type Machine struct {
	// Receive is what the machine does with a message, which the next one overwrites.
	Receive func(message []byte)
	// Aim puts into a message what a sender knows that the machine believes: identifiers,
	// sequence numbers. Its time is not counted. nil: there is no such thing.
	Aim func(message []byte)
}

func (m Machine) aim(b []byte) {
	if m.Aim != nil {
		m.Aim(b)
	}
}

const (
	udpMost   = 65507
	shortRun  = 5000
	sequence  = 32 // messages to one machine, on average
	stuck     = time.Minute
	heapSlack = 4 << 20 // bytes that caches and the runtime may differ by
)

// position is where a run is: it makes the same messages again.
type position struct{ seed, history, message uint64 }

// Run attacks a parser. Three fifths of the messages go to fresh state machines in
// sequences, the others to one machine.
func Run(t *testing.T, p Parser) {
	t.Helper()
	a := &attack{parser: p, seed: 1, log: t.Logf}
	count := a.settings(t)
	done := false
	defer func() {
		if !done { // it panicked, or the test's own code gave up
			t.Logf("%s", a.where())
		}
	}()
	faults := a.run(count)
	done = true
	for _, fault := range faults {
		t.Error(fault)
	}
}

// run feeds a parser so many mutated messages, and returns what is wrong with it.
func (a *attack) run(count int) (faults []string) {
	begun := time.Now()
	a.alarm = time.AfterFunc(stuck, func() { panic(fmt.Sprintf("%s takes more than %s", a.where(), stuck)) })
	defer a.alarm.Stop()
	runtime.LockOSThread() // CPU time is counted by thread
	defer runtime.UnlockOSThread()
	for history := uint64(1); a.mutated < count*3/5; history++ {
		r := a.random(history)
		a.feed(history, r, a.parser.New(r), func(n int) bool { return n < 1 || r.IntN(sequence) != 0 })
	}
	before, after := a.one(count)
	a.log("%s: %d mutated messages and %d others to %d state machines, %.0f a second; heap %d KiB, then %d KiB",
		a.parser.Name, a.mutated, a.fed-a.mutated, a.machines, float64(a.fed)/time.Since(begun).Seconds(), before>>10, after>>10)
	if !a.proof {
		return nil
	}
	if after > before+heapSlack {
		faults = append(faults, fmt.Sprintf("%s: one state machine kept %d KiB more after the second half of its messages", a.parser.Name, (after-before)>>10))
	}
	return append(faults, a.judge()...)
}

// where says how the message in hand can be made again.
func (a *attack) where() string {
	return fmt.Sprintf("%s: WEFT_MUTATOR_SEED=%d, sequence %d, message %d: %x", a.parser.Name, a.at.seed, a.at.history, a.at.message, clip(a.current))
}

// settings reads the environment, and returns how many mutated messages there are to be.
func (a *attack) settings(t *testing.T) (count int) {
	t.Helper()
	number := func(name string) (n uint64, set bool) {
		s := os.Getenv(name)
		if s == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(s, 10, 40)
		if err != nil {
			t.Fatalf("%s is %q, not a number", name, s)
		}
		return n, true
	}
	if n, set := number("WEFT_MUTATOR_SEED"); set {
		a.seed = n
	}
	n, set := number("WEFT_MUTATED")
	if a.proof = set; set {
		return int(n)
	}
	if a.parser.Short > 0 {
		return a.parser.Short
	}
	return shortRun
}

type attack struct {
	parser                 Parser
	seed                   uint64
	proof                  bool
	log                    func(format string, args ...any)
	alarm                  *time.Timer
	at                     position
	current                []byte
	mutated, fed, machines int
	lone                   Machine // the one that gets most of the messages
	slowest                slowest
}

func (a *attack) random(history uint64) *rand.Rand { return rand.New(rand.NewPCG(a.seed, history)) }

// feed sends a machine messages as long as more says so.
func (a *attack) feed(history uint64, r *rand.Rand, machine Machine, more func(n int) bool) {
	a.machines++
	m := newMaker(&a.parser, r)
	for n := 0; more(n); n++ {
		b, mutated := m.next()
		a.at, a.current = position{a.seed, history, uint64(n)}, b
		a.fed++
		if mutated {
			a.mutated++
		}
		machine.aim(b)
		if !a.proof {
			machine.Receive(b)
			continue
		}
		size := len(b)
		begin := a.cpu()
		machine.Receive(b)
		if took := a.cpu() - begin; a.slowest.takes(took, size) {
			one := slow{at: a.at, took: took, size: size}
			if history == 0 {
				one.message = bytes.Clone(b)
			}
			a.slowest.add(one)
		}
	}
	a.alarm.Reset(stuck)
}

// one sends the rest of the messages to one machine, and returns the heap after the
// first half and after the second.
func (a *attack) one(count int) (before, after uint64) {
	r := a.random(0)
	a.lone = a.parser.New(r)
	half := a.mutated + (count-a.mutated)/2
	for _, until := range []int{half, count} {
		a.feed(0, r, a.lone, func(n int) bool {
			if n%1024 == 1023 {
				a.alarm.Reset(stuck)
			}
			return a.mutated < until
		})
		before, after = after, a.heap()
	}
	a.machines--
	return before, after
}

// heap is what the heap holds besides the messages that are kept here.
func (a *attack) heap() uint64 {
	var m runtime.MemStats
	for range 2 { // finalizers and pools need two
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	kept := uint64(0)
	for _, s := range a.slowest {
		kept += uint64(len(s.message))
	}
	return m.HeapAlloc - kept
}

func clip(b []byte) []byte { return b[:min(len(b), 2048)] }
