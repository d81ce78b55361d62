// Package mark defines the marks of weft's objects in the kernel, and the words in
// its devices' aliases.
package mark

import (
	"slices"
	"strings"
)

// AliasPrefix marks weft's devices: `ip -d link` shows the alias.
const AliasPrefix = "weft:"

const Bypass = "bypass"

// HasBypass reports, by its alias, whether a device is a pseudowire that routed
// packets may bypass.
func HasBypass(alias string) bool {
	owner, ours := strings.CutPrefix(alias, AliasPrefix+"pseudowire.")
	return ours && slices.Contains(strings.Fields(owner), Bypass)
}

// DoomedGroup is the group of devices that are to be removed, and of those that weft
// has not yet marked as its own: they are created in it. So the leftovers of a
// killed process are recognised. The kernel waits tens of milliseconds for each
// device that it removes, but no longer for all of a group.
const DoomedGroup = 0x77656674

// HasSessions reports, by its alias, whether a device is that of an [lns.NAME] or an
// [l2tp_client.NAME].
func HasSessions(alias string) bool {
	owner, ours := strings.CutPrefix(alias, AliasPrefix)
	return ours && (strings.HasPrefix(owner, "lns.") || strings.HasPrefix(owner, "l2tp_client."))
}
