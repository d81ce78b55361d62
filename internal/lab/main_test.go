package lab

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"weft/internal/lab/netspace/spacetest"
)

// fakeRouter makes the test binary stand in for `weft run`: it does what the
// variable says.
const fakeRouter = "WEFT_LAB_TEST_ROUTER"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "run" {
		os.Exit(routerStandIn(os.Getenv(fakeRouter)))
	}
	spacetest.Main(m, 100) // beside bounds them
}

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
