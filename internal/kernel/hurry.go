package kernel

import (
	"fmt"
	"os"
	"strings"

	"weft/internal/state"
)

// rcuExpedited makes the kernel expedite grace periods by interrupting all CPUs,
// which takes a hundredth of the time (Documentation/ABI in the kernel).
const rcuExpedited = "/sys/kernel/rcu_expedited"

// hurried is the number of devices with programs to create or remove from which on
// expediting is worth it.
const hurried = 32

// WorthHurry reports whether steps create or remove that many.
func WorthHurry(steps []state.Step) bool {
	n := 0
	for _, s := range steps {
		switch s.Object.(type) {
		case state.PseudowireDevice, state.Pseudowire:
			if s.Op != state.Change {
				n++
			}
		}
	}
	return n >= hurried
}

// Hurry makes the kernel finish grace periods at once, until done is called: it
// waits for one, 10 to 20 ms, whenever a program is attached to a device, which adds
// up with thousands. If that is not possible it takes longer.
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

// calm ends Hurry, also that of a process that died meanwhile.
func (k *Kernel) calm() error {
	if _, hurried := k.journal.was[rcuExpedited]; !hurried {
		return nil
	}
	if err := os.WriteFile(rcuExpedited, []byte("0"), 0); err != nil {
		return fmt.Errorf("put grace periods back to normal: %w", err)
	}
	return k.journal.forget(rcuExpedited)
}
