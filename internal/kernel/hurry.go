package kernel

import (
	"fmt"
	"os"
	"strings"

	"weft/internal/state"
)

// rcuExpedited has the kernel wait for its grace periods by interrupting all
// CPUs, which takes a hundredth of the time (Documentation/ABI in the kernel).
const rcuExpedited = "/sys/kernel/rcu_expedited"

// hurried is how many devices with programs are made, or removed, before it is
// worth to hurry the kernel.
const hurried = 32

// WorthHurry tells whether steps make, or remove, that many.
func WorthHurry(steps []state.Step) bool {
	n := 0
	for _, s := range steps {
		switch s.Object.(type) {
		case state.Wire, state.Pseudowire:
			if s.Op != state.Change {
				n++
			}
		}
	}
	return n >= hurried
}

// Hurry makes the kernel finish grace periods at once, until done is called:
// it waits for one, 10 to 20 ms, whenever a program is put on a device, which
// adds up with thousands. Where it cannot be had it takes longer.
func (k *Kernel) Hurry() (done func() error) {
	nothing := func() error { return nil }
	was, err := os.ReadFile(rcuExpedited)
	if err != nil || strings.TrimSpace(string(was)) != "0" {
		return nothing
	}
	if err := k.journal.note(rcuExpedited, "0"); err != nil {
		return nothing
	}
	if err := os.WriteFile(rcuExpedited, []byte("1"), 0); err != nil {
		_ = k.journal.forget(rcuExpedited)
		return nothing
	}
	return k.calm
}

// calm ends Hurry, also one of a process that died meanwhile.
func (k *Kernel) calm() error {
	if _, hurried := k.journal.was[rcuExpedited]; !hurried {
		return nil
	}
	if err := os.WriteFile(rcuExpedited, []byte("0"), 0); err != nil {
		return fmt.Errorf("put grace periods back to normal: %w", err)
	}
	return k.journal.forget(rcuExpedited)
}
