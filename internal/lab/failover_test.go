package lab

// The failover scenario needs the Debian packages keepalived and openssl, and
// says so where they are missing.

import (
	"os/exec"
	"testing"
)

func TestTheFailoverScenarioPasses(t *testing.T) {
	weft, lab := program(t), name(t, "")
	if out, err := exec.Command(weft, "lab", "run", "failover", "--name", lab).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	nothingLeft(t, lab)
}

const bridged = `title = "two nodes and a switch"
[[node]]
name = "a"
[[node]]
name = "b"
[[node.process]]
name = "sleep"
argv = ["sleep", "1000"]
[[node]]
name = "s"
switch = true
[[link]]
ends = [
  { node = "a", device = "eth0", addresses = ["192.0.2.1/24", "2001:db8::1/64"] },
  { node = "s", device = "port1" },
]
rate = "50mbit"
[[link]]
ends = [
  { node = "b", device = "eth0", addresses = ["192.0.2.2/24", "2001:db8::2/64"] },
  { node = "s", device = "port2" },
]
`

func TestANodeIsKilledAndComesBack(t *testing.T) {
	weft := program(t)
	l, err := up(t, weft, name(t, ""), bridged)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what, check string, want bool) Result {
		t.Helper()
		s, err := parse(bridged + "[[check]]\nname = \"n\"\n" + check + "\n")
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Check(t.Context(), s.Checks[0])
		if err != nil || r.OK != want {
			t.Errorf("%s: %+v (%v), want ok %v", what, r, err, want)
		}
		return r
	}
	ping := "kind = \"ping\"\nfrom = \"a\"\nto = \"2001:db8::2\""
	try("through the switch", ping, true)
	try("what is alive is not revived", "kind = \"revive\"\nnode = \"b\"", false)
	// nobody takes over: the transfer is over with the node
	try("a transfer without its router", "kind = \"takeover\"\nfrom = \"a\"\nto = \"2001:db8::2\"\nat = \"b\"\nkill = \"b\"\nwithin = \"1s\"", false)
	try("dead", ping+"\nfails = true\ncount = 1", true)
	if c := l.Casualties(); len(c) != 0 {
		t.Errorf("who was killed is missed: %+v", c)
	}
	try("it comes back", "kind = \"revive\"\nnode = \"b\"", true)
	try("and answers", ping, true)
	if r := try("it was too short", "kind = \"takeover\"\nfrom = \"a\"\nto = \"2001:db8::2\"\nat = \"b\"\nkill = \"b\"\nwithin = \"1s\"\nbytes = \"1KiB\"", false); r.OK {
		t.Error("a transfer that was over before counts")
	}
	try("and nothing was killed", ping, true)
}
