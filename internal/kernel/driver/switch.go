package driver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"weft/internal/state"
)

// SwitchPort is the kind of a device that stands for a port of a switch (DSA).
const SwitchPort = "dsa"

// PortNumber reads the name that the kernel gives a port of a switch by its
// number ("p3"), and gives the number counted from 1; 0: it is another name.
func PortNumber(name string) int {
	digits, is := strings.CutPrefix(name, "p")
	n, err := strconv.ParseUint(digits, 10, 8)
	if !is || err != nil {
		return 0
	}
	return int(n) + 1
}

// SwitchFacts tells of a port of a switch where it is, and of a device in front
// of one which tags are spoken there. sys is where sysfs has devices by name.
func SwitchFacts(f *state.LinkFact, l netlink.Link, names map[int]string, sys string) {
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(sys, f.Name, file))
		if err != nil {
			return "" // most devices are neither
		}
		return strings.TrimSpace(string(text))
	}
	if l.Type() != SwitchPort {
		f.Tagging = read("dsa/tagging")
		return
	}
	f.Port = PortNumber(read("phys_port_name"))
	if l.Attrs().NetNsID < 0 { // else the index is another namespace's
		f.Lower = names[l.Attrs().ParentIndex]
	}
}
