package daemon_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel drops netlink events that are not read fast enough. A daemon that is
// stopped meanwhile stands for one that is too slow.
func TestAStormOfNewsDoesNotDeafenIt(t *testing.T) {
	// alone: a storm of news against the daemon's own buffers
	w := newTopology(t, usual())
	r := w.start()
	w.pings(w.member, serverFrom6)
	r.signal(unix.SIGSTOP)
	var batch strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&batch, "addr add 10.%d.%d.1/32 dev lo\n", i/250, i%250)
	}
	w.feed(w.router, batch.String(), "ip -batch -")
	r.signal(unix.SIGCONT)
	w.run(w.router, "ip addr flush dev lo")
	w.run(w.router, "ip link del nat64-main")
	eventually(t, "the translator's device is made again", func() bool { return w.reaches(w.member, serverFrom6) })
}
