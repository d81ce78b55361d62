package trace

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"weft/internal/lab/netspace"
	"weft/internal/testbin"
)

// A file that was imported names no addresses, and devices of which the host may have
// some: it is a file for another host, and a laptop with one of them traces it too.
func TestAFileForAnotherHostIsTracedOnAnyHost(t *testing.T) {
	needRoot(t)
	s := hostSpace(t)
	nl, err := s.Netlink()
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "wefttrace-far"}
	veth.Name = "eth0"
	if err := nl.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	l, err := nl.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	given := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1).To4(), Mask: net.CIDRMask(24, 32)}}
	for _, err := range []error{nl.LinkSetUp(l), nl.AddrAdd(l, given)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const imported = `[interface.lan]
device = "eth1"
[interface.wan]
device = "eth0"
[nat64.main]
mode = "stateless"
interfaces = ["lan", "wan"]
prefix = "2001:db8:64::/96"
mappings = [{ ipv6 = "2001:db8:1::/120", ipv4 = "203.0.113.0/24" }]
`
	cmd := exec.CommandContext(t.Context(), testbin.Weft(t), "trace", "--json", "--config", configFile(t, imported), "--in", "lan")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = captureOf(t, true, udp6(t, "2001:db8:1::7", "2001:db8:64::198.51.100.9", 64, "x")), &out, &errs
	if err := s.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	if line := out.String(); !strings.Contains(line, `"interface":"wan"`) || !strings.Contains(line, "cb007107c6336409") {
		t.Errorf("not translated, or not out by wan: %s %s", line, errs.String())
	}
}

func TestDevicesOfTheHostLendTheirAddressMTUAndRoutes(t *testing.T) {
	needRoot(t)
	s := hostSpace(t)
	nl, err := s.Netlink()
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "wefttrace-lan"}
	veth.Name, veth.MTU, veth.HardwareAddr = "wefttrace-wan", 1400, net.HardwareAddr{2, 9, 9, 9, 9, 9}
	if err := nl.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	l, err := nl.LinkByName("wefttrace-wan")
	if err != nil {
		t.Fatal(err)
	}
	_, to, _ := net.ParseCIDR("2001:db8:77::/48")
	route := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: to, Gw: net.ParseIP("fe80::1")}
	peer, err := nl.LinkByName("wefttrace-lan")
	if err != nil {
		t.Fatal(err)
	}
	given := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1).To4(), Mask: net.CIDRMask(24, 32)}} // not by the file
	for _, err := range []error{nl.LinkSetUp(peer), nl.LinkSetUp(l), nl.RouteAdd(route), nl.AddrAdd(l, given)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	to6 := func(payload string) []byte {
		return frame(mac(veth.HardwareAddr), farMAC, etherIPv6, udp6(t, "2001:db8:77::2", "2001:db8:77::1", 9, payload))
	}
	cmd := exec.CommandContext(t.Context(), testbin.Weft(t), "trace", "--json", "--config", configFile(t, routerFile), "--in", "wan")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = captureOf(t, false, to6("x"), to6(strings.Repeat("x", 1400)),
		frame(mac(veth.HardwareAddr), farMAC, etherIPv4, udp4(t, "192.0.2.9", "192.0.2.1", 9, "x"))), &out, &errs
	if err := s.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %q", out.String())
	}
	// no socket is open: the kernel resolves the neighbour to send it port
	// unreachable
	if !strings.Contains(lines[2], "c0000201000000000000c0000209") {
		t.Errorf("the host's address was not taken: %s", lines[2])
	}
	// out by the host's route: the kernel asks for its gateway, fe80::1
	if !strings.Contains(lines[0], `"interface":"wan"`) || !strings.Contains(lines[0], "fe800000000000000000000000000001") {
		t.Errorf("the host's route was not taken: %s", lines[0])
	}
	if !strings.Contains(lines[1], "frame-too-long") {
		t.Errorf("the host's MTU was not taken: %s", lines[1])
	}
	if again, err := nl.LinkByName("wefttrace-wan"); err != nil || again.Attrs().Index != l.Attrs().Index {
		t.Errorf("the host's device: %v", err)
	}
}

func TestKilledItLeavesNothing(t *testing.T) {
	needRoot(t)
	cmd := exec.CommandContext(t.Context(), testbin.Weft(t), "trace", "--json", "--config", configFile(t, routerFile), "--in", "wan")
	// its input stays open whatever happens: it does not end by itself
	in, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer stdin.Close()
	cmd.Stdin = in
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// one packet is through and the next one is awaited: everything is in place
	if _, err := stdin.Write(captureOf(t, true, udp4(t, "198.51.100.10", "203.0.113.42", 9, "x")).Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	inner := children(t, cmd.Process.Pid)
	if len(inner) != 1 {
		t.Fatalf("it has the processes %v", inner)
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", inner[0]))
	if err != nil {
		t.Fatal(err)
	}
	cookies := entries(t, fmt.Sprintf("/proc/%d/root/run/weft", inner[0]))
	if pins := entries(t, fmt.Sprintf("/proc/%d/root/sys/fs/bpf/weft", inner[0])); len(cookies) != 1 || !slices.Equal(pins, cookies) {
		t.Fatalf("inside, the place is %v in /run and %v in the bpf file system", cookies, pins)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", inner[0]))
		if err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", inner[0])
		}
	}
	for _, dir := range []string{"/sys/fs/bpf/weft", "/run/weft"} {
		if slices.Contains(entries(t, dir), cookies[0]) {
			t.Errorf("%s has %s", dir, cookies[0])
		}
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if in, err := os.Readlink(l); err == nil && in == space {
			t.Errorf("%s is still in the namespace", l)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), strings.Trim(space, "net:[]")) {
		t.Error("the namespace is mounted somewhere")
	}
	if l, err := net.InterfaceByName("wefttrace-wan"); err == nil {
		t.Errorf("the host has %v", l)
	}
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func children(t *testing.T, pid int) (list []int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Fields(string(text)) {
			var child int
			if _, err := fmt.Sscan(f, &child); err != nil {
				t.Fatal(err)
			}
			list = append(list, child)
		}
	}
	return list
}

// hostSpace is a namespace that stands for a host of its own.
func hostSpace(t *testing.T) *netspace.Space {
	t.Helper()
	s, err := netspace.Create(fmt.Sprintf("wefttrace%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := netspace.Delete(s.Name); err != nil {
			t.Error(err)
		}
	})
	return s
}
