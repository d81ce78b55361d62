package mutator

import (
	"bytes"
	"container/heap"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

const (
	most      = 1000 // slow messages that are fed again, alone
	times     = 5    // and how often: the best counts, as other programs take the CPU too
	perOne    = time.Millisecond
	perByte   = time.Microsecond
	allocOne  = 1 << 20 // bytes that a message may allocate
	allocByte = 1 << 10 // and more for each byte of it
)

// cpu is the CPU time of this thread, or of all.
func (a *attack) cpu() time.Duration {
	clock := int32(unix.CLOCK_THREAD_CPUTIME_ID)
	if a.parser.Beside {
		clock = unix.CLOCK_PROCESS_CPUTIME_ID
	}
	var now unix.Timespec
	_ = unix.ClockGettime(clock, &now) // cannot fail: the clock is there, the pointer is good
	return time.Duration(now.Nano())
}

// slow is a message that took long.
type slow struct {
	at   position
	took time.Duration
	size int

	message []byte // nil if its sequence can be made again
}

func allowed(size int) time.Duration { return perOne + time.Duration(size)*perByte }
func allowedMemory(size int) uint64  { return allocOne + allocByte*uint64(size) }

// share is how much of what it may take a message took.
func (s slow) share() float64 { return float64(s.took) / float64(allowed(s.size)) }

// slowest holds those that took most of what they may, the least first.
type slowest []slow

func (s slowest) Len() int           { return len(s) }
func (s slowest) Less(i, k int) bool { return s[i].share() < s[k].share() }
func (s slowest) Swap(i, k int)      { s[i], s[k] = s[k], s[i] }
func (s *slowest) Push(x any)        { *s = append(*s, x.(slow)) }
func (s *slowest) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

func (s *slowest) takes(took time.Duration, size int) bool {
	return len(*s) < most || slow{took: took, size: size}.share() > (*s)[0].share()
}

func (s *slowest) add(one slow) {
	heap.Push(s, one)
	if len(*s) > most {
		heap.Pop(s)
	}
}

// judge feeds the slowest messages again, alone: those of a sequence to a machine that
// got the messages before them, the others to the machine that got them.
func (a *attack) judge() (faults []string) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	worst, largest := slow{}, uint64(0)
	for i, s := range a.slowest {
		if i%50 == 0 {
			runtime.GC()
		}
		best, least := slow{took: 1 << 62}, uint64(1<<62)
		for n := 0; n < times && (best.share() > 0.5 || least > allowedMemory(s.size)/2); n++ {
			took, allocated, message := a.again(s)
			best, least = slow{took: min(took, best.took), size: s.size, message: message}, min(allocated, least)
		}
		if best.share() > worst.share() {
			worst = best
		}
		largest = max(largest, least)
		if best.took > allowed(s.size) || least > allowedMemory(s.size) {
			a.at, a.current = s.at, best.message
			faults = append(faults, fmt.Sprintf("%s of CPU and %d KiB for %d bytes: %s", best.took, least>>10, s.size, a.where()))
		}
		a.alarm.Reset(stuck)
	}
	a.log("%s: of the slowest %d, fed again alone, the worst took %s for %d bytes, of %s allowed; none allocated more than %d KiB",
		a.parser.Name, len(a.slowest), worst.took, worst.size, allowed(worst.size), largest>>10)
	return faults
}

// again makes a message again, and measures it.
func (a *attack) again(s slow) (took time.Duration, allocated uint64, message []byte) {
	if s.message != nil {
		took, allocated = a.measure(a.lone.Receive, bytes.Clone(s.message))
		return took, allocated, s.message
	}
	r := a.random(s.at.history)
	machine := a.parser.New(r)
	m := newMaker(&a.parser, r)
	for range s.at.message {
		b, _ := m.next()
		machine.aim(b)
		machine.Receive(b)
		r.IntN(sequence) // as Run does between messages
	}
	b, _ := m.next()
	machine.aim(b)
	message = bytes.Clone(b)
	took, allocated = a.measure(machine.Receive, b)
	return took, allocated, message
}

func (a *attack) measure(receive func([]byte), b []byte) (took time.Duration, allocated uint64) {
	var was, is runtime.MemStats
	runtime.ReadMemStats(&was)
	begin := a.cpu()
	receive(b)
	took = a.cpu() - begin
	runtime.ReadMemStats(&is)
	return took, is.TotalAlloc - was.TotalAlloc
}
