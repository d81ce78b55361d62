package daemon_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/lab/netspace"
)

// tun makes a device without Ethernet frames in a namespace, and gives its user
// space end.
func tun(t *testing.T, s *netspace.Space, name string) *os.File {
	t.Helper()
	var file *os.File
	err := s.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return err
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// carry hands packets of one device to another, as a tunnel does, until it is closed.
func carry(from, to *os.File) {
	b := make([]byte, 65536)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		_, _ = to.Write(b[:n]) // a device that is down takes none
	}
}

// A member behind a tunnel (tun; WireGuard and PPP are of its kind) is translated,
// and reaches the router itself.
func TestAMemberBehindADeviceWithoutEthernetFramesIsTranslated(t *testing.T) {
	for name, mode := range map[string]string{
		"stateless": "mode = \"stateless\"\nmappings = [{ ipv6 = \"2001:db8:9::2\", ipv4 = \"198.51.100.2\" }]\n",
		"stateful":  "mode = \"stateful\"\npools = [{ ipv4 = \"198.51.100.2\" }]\n",
	} {
		for path, bypass := range map[string]string{"by the stack": "", "past it": "bypass = true\n"} {
			t.Run(name+" "+path, func(t *testing.T) {
				w := newTopology(t, "[interface.tunnel]\ndevice = \"tun0\"\naddresses = [\"2001:db8:9::1/64\"]\n"+bypass+
					"[interface.wan]\naddresses = [\"198.51.100.1/24\"]\n"+bypass+
					"[nat64.main]\nprefix = \"64:ff9b:1::/96\"\ninterfaces = [\"tunnel\", \"wan\"]\n"+mode)
				near, far := tun(t, w.router, "tun0"), tun(t, w.member, "tun0")
				go carry(near, far)
				go carry(far, near)
				w.run(w.router, "ip link set tun0 up")
				w.run(w.member, "ip link set tun0 up")
				w.run(w.member, "ip addr add 2001:db8:9::2/64 dev tun0 nodad")
				w.run(w.member, "ip route replace default dev tun0")
				w.run(w.member, "ip -6 route replace default dev tun0")
				r := w.start()
				w.pings(w.member, serverFrom6)
				w.pings(w.member, "2001:db8:9::1")
				if name == "stateless" {
					w.pings(w.server, "198.51.100.2")
				}
				// stateless, fragments of ICMP are not translated (RFC 7915)
				if name == "stateful" {
					out := w.run(w.member, "ping -6 -c 1 -W 5 -s 3000 "+serverFrom6)
					if !strings.Contains(out, " 0% packet loss") {
						t.Errorf("fragments are lost:\n%s", out)
					}
				}
				if n := w.counted("drop-bad-header") + w.counted("drop-interface"); n > 0 {
					t.Errorf("%d packets of the tunnel are dropped", n)
				}
				w.planIsEmpty()
				r.stop()
			})
		}
	}
}
