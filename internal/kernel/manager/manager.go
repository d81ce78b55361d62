// Package manager finds the other program that configures a network device, by the
// state that those programs keep under /run and by the running processes.
package manager

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Names of managers, as people know them.
const (
	Networkd       = "systemd-networkd"
	NetworkManager = "NetworkManager"
	Ifupdown       = "ifupdown"
)

// clients are programs that keep a device's DHCP lease, by the names of their
// processes.
var clients = []string{"dhclient", "dhcpcd", "udhcpc"}

// Host is the root directory of a host, / except in tests.
type Host string

// Here is this host.
const LocalAddr Host = "/"

// Of returns the manager of each device that has one; devices are names by index.
// Unreadable state counts as none. Daemons' state under /run is that of the network
// namespace of the first process: in others it is about other devices.
func (h Host) Of(devices map[int]string) map[string]string {
	found := map[string]string{}
	set := func(device, who string) {
		if _, known := found[device]; !known {
			found[device] = who
		}
	}
	if h.namespace("1") == h.namespace("self") {
		up := h.ifstate()
		for index, name := range devices {
			switch {
			case h.networkd(index):
				set(name, Networkd)
			case h.networkManager(index):
				set(name, NetworkManager)
			case up[name] && name != "lo":
				set(name, Ifupdown)
			}
		}
	}
	for name, client := range h.leases(devices) {
		set(name, client)
	}
	return found
}

func (h Host) path(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

func (h Host) namespace(pid string) string {
	name, _ := os.Readlink(h.path("proc", pid, "ns/net")) // empty: not to be known
	return name
}

// networkd reads what sd_network_link_get_setup_state() reads.
func (h Host) networkd(index int) bool {
	switch h.value(h.path("run/systemd/netif/links", fmt.Sprint(index)), "ADMIN_STATE") {
	case "", "unmanaged", "initialized", "linger":
		return false
	}
	return true
}

func (h Host) networkManager(index int) bool {
	return h.value(h.path("run/NetworkManager/devices", fmt.Sprint(index)), "managed") == "true"
}

// value reads one key of a file of KEY=VALUE lines, empty if there is none.
func (h Host) value(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && name == key {
			return value
		}
	}
	return ""
}

// ifstate reads which devices ifup has configured: lines like eth0=home.
func (h Host) ifstate() map[string]bool {
	up := map[string]bool{}
	text, err := os.ReadFile(h.path("run/network/ifstate"))
	if err != nil {
		return up
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if device, _, ok := strings.Cut(strings.TrimSpace(lines.Text()), "="); ok {
			up[device] = true
		}
	}
	return up
}

// leases finds DHCP clients in this network namespace, by the devices that their
// command lines name.
func (h Host) leases(devices map[int]string) map[string]string {
	found := map[string]string{}
	here := h.namespace("self")
	names := map[string]bool{}
	for _, name := range devices {
		names[name] = true
	}
	commands, _ := filepath.Glob(h.path("proc/[0-9]*/comm")) // the pattern is well-formed
	for _, file := range commands {
		comm, _ := os.ReadFile(file)
		client := strings.TrimSpace(string(comm))
		if !isClient(client) || h.namespace(filepath.Base(filepath.Dir(file))) != here {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		for _, word := range strings.FieldsFunc(string(line), func(r rune) bool { return r == 0 || r == ' ' }) {
			if names[word] {
				found[word] = client
			}
		}
	}
	return found
}

func isClient(name string) bool {
	for _, c := range clients {
		if name == c {
			return true
		}
	}
	return false
}
