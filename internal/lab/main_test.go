package lab

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// fakeRouter makes the test binary stand in for `weft run`: it does what the
// variable says.
const fakeRouter = "WEFT_LAB_TEST_ROUTER"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "run" {
		os.Exit(routerStandIn(os.Getenv(fakeRouter)))
	}
	os.Exit(testAll(m))
}

// testAll builds weft for the tests that run it as a command.
func testAll(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "weft-lab-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	weftPath = filepath.Join(dir, "weft")
	c := exec.Command("go", "build", "-o", weftPath, "weft/cmd/weft")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build weft: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// weftPath is the program that TestMain has built.
var weftPath string

func routerStandIn(does string) int {
	switch does {
	case "dies":
		fmt.Fprintln(os.Stderr, "interface lan: no such device")
		return 3
	case "ready":
		conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		conn.Write([]byte("STATUS=starting"))
		conn.Write([]byte("READY=1\nSTATUS=forwarding"))
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	return 0
}
