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

// SwitchFacts fills in a switch port's number and conduit, and a conduit's tag
// format. sys is the directory of devices in sysfs.
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
