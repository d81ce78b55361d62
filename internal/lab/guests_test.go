package lab

// These tests boot guests, so they need the Debian packages user-mode-linux,
// qemu-system-x86, linux-image-6.12-amd64 and busybox-static, and fail with
// the package's name where one is missing:
//
//	a (netns) eth0 --- eth0 u (User-Mode Linux)

import (
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/internal/lab/netspace"
)

const withGuest = `title = "a namespace and a guest"
[[node]]
name = "a"
[[node]]
name = "u"
kind = "uml"
sysctls = { "net.ipv4.icmp_echo_ignore_all" = "0" }
[[link]]
ends = [
  { node = "a", device = "eth0", addresses = ["192.0.2.1/24", "2001:db8::1/64"] },
  { node = "u", device = "eth0", addresses = ["192.0.2.2/24", "2001:db8::2/64"], mac = "02:00:00:00:00:99" },
]
mtu = 1400
`

func TestChecksAndShellReachIntoAGuest(t *testing.T) {
	beside(t, false)
	weft, lab := program(t), name(t, "")
	l, err := up(t, weft, lab, withGuest)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse(withGuest + `
[[check]]
kind = "ping"
name = "from the guest"
from = "u"
to = "2001:db8::1"
[[check]]
kind = "ping"
name = "to the guest"
from = "a"
to = "192.0.2.2"
size = 1372
[[check]]
kind = "observe"
name = "frames are watched in the guest"
from = "a"
to = "192.0.2.2"
count = 1
places = ["a:eth0", "u:eth0"]
[[check]]
kind = "exec"
name = "a command in the guest"
node = "u"
argv = ["cat", "/sys/class/net/eth0/address", "/sys/class/net/eth0/mtu"]
expect = "02:00:00:00:00:99\n1400"
[[check]]
kind = "exec"
name = "a command that fails there"
node = "u"
argv = ["sh", "-c", "exit 4"]
fails = true
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Checks {
		if r, err := l.Check(t.Context(), c); err != nil || !r.OK {
			t.Errorf("%s: %s, %v", c.Name, r.Outcome, err)
		}
	}
	out, err := exec.Command(weft, "lab", "shell", lab+"/u", "--", "sh", "-c", "hostname; exit 6").Output()
	var exit *exec.ExitError
	if !asExit(err, &exit) || exit.ExitCode() != 6 || string(out) != "u\n" {
		t.Errorf("lab shell says %q, %v", out, err)
	}
	if rs := l.Casualties(); len(rs) > 0 {
		t.Errorf("casualties: %+v", rs)
	}
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// guestUp is a lab with a guest, and the processes that are it.
func guestUp(t *testing.T, weft, lab string) (*Lab, []netspace.Process) {
	t.Helper()
	l, err := up(t, weft, lab, withGuest)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := l.spaces["u"].Processes()
	if err != nil {
		t.Fatal(err)
	}
	return l, ps
}

// A machine with other work to do lets a guest wait. A cable does not lose what was
// sent meanwhile.
func TestACableKeepsWhatItsGuestReadsLate(t *testing.T) {
	beside(t, false)
	weft, lab := program(t), name(t, "")
	l, ps := guestUp(t, weft, lab)
	machine := 0 // the first of its processes: the others are those that run in it
	for _, p := range ps {
		if strings.Contains(p.Command, "linux.uml") && (machine == 0 || p.PID < machine) {
			machine = p.PID
		}
	}
	const datagrams = 8000
	err := l.spaces["a"].Do(func() error {
		c, err := net.Dial("udp", "192.0.2.2:9")
		if err != nil {
			return err
		}
		defer c.Close()
		_, _ = c.Write([]byte("who is it")) // the neighbour is known from then on
		time.Sleep(500 * time.Millisecond)
		if err := syscall.Kill(machine, syscall.SIGSTOP); err != nil {
			return err
		}
		defer syscall.Kill(machine, syscall.SIGCONT)
		for range datagrams {
			if _, err := c.Write(make([]byte, 100)); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(weft, "lab", "shell", lab+"/u", "--", "sh", "-c",
		"for i in $(seq 100); do n=$(cat /sys/class/net/eth0/statistics/rx_packets); [ $n -gt "+strconv.Itoa(datagrams)+" ] && break; sleep 0.1; done; echo $n").Output()
	if n, _ := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || n <= datagrams {
		t.Errorf("the guest got %d of %d datagrams that were sent while it did not run: %v", n, datagrams, err)
	}
}

func TestAGuestThatDiesIsACasualty(t *testing.T) {
	beside(t, false)
	weft, lab := program(t), name(t, "")
	l, ps := guestUp(t, weft, lab)
	for _, p := range ps {
		if strings.Contains(p.Command, "linux.uml") || strings.Contains(p.Command, "mem=") {
			exec.Command("kill", "-9", strconv.Itoa(p.PID)).Run() // its helpers may go first
		}
	}
	<-l.guests["u"].Done()
	for len(l.Casualties()) == 0 { // the note follows at once
		if t.Context().Err() != nil {
			t.Fatal("the guest's end was not noticed")
		}
	}
	if r := l.Casualties()[0]; !strings.Contains(r.Check, "u") || !strings.Contains(r.Outcome, "ended") {
		t.Errorf("%+v", r)
	}
}

func TestGuestsOfAKilledRunAreTakenDown(t *testing.T) {
	beside(t, false)
	weft, lab := program(t), name(t, "")
	l, err := up(t, weft, lab, withGuest)
	if err != nil {
		t.Fatal(err)
	}
	space, err := netspace.Open(SpaceName(lab, "u"))
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	if ps, err := space.Processes(); err != nil || len(ps) < 2 {
		t.Fatalf("%v, %v: the test proves nothing", ps, err)
	}
	l.Close() // all that a killed run gives back
	if out, err := exec.Command(weft, "lab", "down", lab).CombinedOutput(); err != nil {
		t.Fatalf("lab down: %v\n%s", err, out)
	}
	nothingLeft(t, lab)
	if ps, err := space.Processes(); err != nil || len(ps) > 0 {
		t.Errorf("left in the namespace: %v, %v", ps, err)
	}
}
