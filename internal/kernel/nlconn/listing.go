package nlconn

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// listTries is how often something is listed that changes meanwhile.
const listTries = 10

// Listed lists anew while the kernel says that what it lists has changed in
// between (NLM_F_DUMP_INTR): something that was there all the time may be
// missing. What changes ever so often is taken as it is; news of it follow.
func Listed[T any](list func() (T, error)) (all T, err error) {
	for range listTries {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return all, err
		}
	}
	return all, nil
}
