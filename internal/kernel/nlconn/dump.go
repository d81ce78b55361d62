package nlconn

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// listTries is how often a dump is repeated if it is interrupted by changes.
const listTries = 10

// Listed repeats a dump while the kernel reports that it has changed in between
// (NLM_F_DUMP_INTR): entries that were there all the time may be missing. If it
// changes every time, the last result is used; events about the changes follow.
func Listed[T any](list func() (T, error)) (all T, err error) {
	for range listTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return all, nil
}
