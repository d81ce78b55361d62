// Package mark says how what weft made in the kernel is known, and what its
// devices' aliases say.
package mark

import (
	"slices"
	"strings"
)

// AliasPrefix marks weft's devices: `ip -d link` shows the alias.
const AliasPrefix = "weft:"

const Shortcut = "shortcut"

// HasShortcut tells by its alias whether a device is a pseudowire's that routed
// packets may go past.
func HasShortcut(alias string) bool {
	owner, ours := strings.CutPrefix(alias, AliasPrefix+"pseudowire.")
	return ours && slices.Contains(strings.Fields(owner), Shortcut)
}

// DoomedGroup is the group of devices that are to go, and of those that weft has
// not marked as its own yet: they are made in it. What a process that is killed
// leaves there is known by it. The kernel waits tens of milliseconds for each
// device that it is told to remove, but no longer for all of a group.
const DoomedGroup = 0x77656674

// HasSessions tells by its alias whether a device is that of an [lns.NAME]
// or an [l2tp_client.NAME].
func HasSessions(alias string) bool {
	owner, ours := strings.CutPrefix(alias, AliasPrefix)
	return ours && (strings.HasPrefix(owner, "lns.") || strings.HasPrefix(owner, "l2tp_client."))
}
