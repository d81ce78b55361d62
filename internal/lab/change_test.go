package lab

// A router with a pseudowire's one end, a guest with the other:
//
//	r (weft) wire === eth0 u (User-Mode Linux, beside r)

import (
	"strings"
	"testing"
)

const wiredGuest = `title = "a guest at the end of a wire"
[[node]]
name = "r"
weft = """
[pseudowire.wire]
kind = "gretap"
src = "127.0.0.1"
dst = "127.0.0.2"
rx_key = 7
tx_key = 9
mtu = 1500
[interface.wire]
addresses = ["192.0.2.1/24"]
"""
[[node]]
name = "u"
kind = "uml"
beside = "r"
[[node.wire]]
device = "eth0"
options = "transport=gre,src=127.0.0.2,dst=127.0.0.1,rx_key=9,tx_key=7"
mac = "02:00:00:00:00:77"
addresses = ["192.0.2.2/24"]
`

func TestChangesUnderTrafficAreHeldToWhatTheySay(t *testing.T) {
	beside(t, false)
	weft := program(t)
	src := Source{Name: "test", File: "test.toml", Text: []byte(wiredGuest)}
	s, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Up(t.Context(), Options{Name: name(t, ""), Scenario: s, Source: src, Weft: weft})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	try := func(what, check, want string) {
		t.Helper()
		s, err := parse(wiredGuest + "[[check]]\nname = \"n\"\n" + check + "\n")
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Check(t.Context(), s.Checks[0])
		if err != nil || r.OK != (want == "") || !strings.Contains(r.Outcome, want) {
			t.Errorf("%s: %+v (%v), want %q", what, r, err, want)
		}
	}
	reload := func(old, new, more string) string {
		return "kind = \"reload\"\nnode = \"r\"\nfrom = \"r\"\nto = \"192.0.2.2\"\nat = \"u\"\nchange = [[\"" + old + "\", \"" + new + "\"]]\n" + more
	}
	// the guest is up before its device is: it may take a moment on a busy machine
	try("the address that was asked for", "kind = \"exec\"\nnode = \"u\"\nargv = [\"sh\", \"-c\", \"for i in $(seq 100); do test -e /sys/class/net/eth0/address && break; sleep 0.2; done; cat /sys/class/net/eth0/address\"]\nexpect = \"02:00:00:00:00:77\"", "")
	try("what does not stand there", reload("rx_key = 8", "rx_key = 9", ""), "0 times")
	try("a file with a mistake", reload("rx_key = 7", "rx_key = -7", ""), "out of range")
	try("back to what is right", reload("rx_key = -7", "rx_key = 7", ""), "")
	try("a change that should stop the traffic and does not", reload("tx_key = 9", "tx_key = 9\\nttl = 9", "fails = true"), "should have stopped")
	try("a guest reboots", "kind = \"reboot\"\nnode = \"u\"", "")
	try("and is there", "kind = \"ping\"\nfrom = \"r\"\nto = \"192.0.2.2\"", "")
	if c := l.Casualties(); len(c) != 0 {
		t.Errorf("a guest that was rebooted is missed: %+v", c)
	}
}
