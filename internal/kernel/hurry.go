package kernel

import (
	"fmt"
	"os"
	"strings"
)

// rcuExpedited has the kernel wait for its grace periods by interrupting all
// CPUs, which takes a hundredth of the time (Documentation/ABI in the kernel).
const rcuExpedited = "/sys/kernel/rcu_expedited"

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
