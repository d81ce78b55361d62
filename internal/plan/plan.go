// Package plan turns what the features ask for into what must exist. It is
// pure, and knows no feature.
package plan

import (
	"reflect"
	"slices"

	"weft/internal/state"
)

// Desire joins the parts of all features.
func Desire(parts []state.Part, facts state.Facts) (state.Desired, []state.Problem) {
	var desired state.Desired
	var problems []state.Problem
	for _, p := range parts {
		desired, problems = append(desired, p.Objects...), append(problems, p.Problems...)
	}
	state.SortProblems(problems)
	return devicesFirst(unique(withTags(guarded(desired)))), problems
}

// devicesFirst has devices made before anything is done on them: one feature
// may work on the device of another.
func devicesFirst(desired state.Desired) state.Desired {
	kinds := state.KindsByType()
	slices.SortStableFunc(desired, func(a, b state.Object) int {
		return kinds[reflect.TypeOf(a)].Make - kinds[reflect.TypeOf(b)].Make
	})
	return desired
}

// guarded keeps XDP off the ports of weft's bridges: it would see frames before
// the guards there do, and send some out past them. TC programs come after.
func guarded(desired state.Desired) state.Desired {
	ports := map[string]bool{}
	for _, o := range desired {
		if g, ok := o.(state.BridgeGuard); ok {
			ports[g.Device] = true
		}
	}
	if len(ports) == 0 {
		return desired
	}
	var all state.Desired
	for _, o := range desired {
		switch v := o.(type) {
		case state.Attachment:
			if v.Hook == state.HookXDP && ports[v.Device] {
				continue
			}
		case state.Port:
			if ports[v.Device] {
				v.Roles &^= state.RoleXDPOut
			}
			o = v
		}
		all = append(all, o)
	}
	return all
}

// withTags has VLAN tags left in the frames of each device before an XDP
// program gets them, whichever feature wants it there.
func withTags(desired state.Desired) state.Desired {
	var all state.Desired
	for _, o := range desired {
		if a, ok := o.(state.Attachment); ok && a.Hook == state.HookXDP {
			all = append(all, state.TagsInFrames{Device: a.Device})
		}
		all = append(all, o)
	}
	return all
}

// unique keeps the first of objects with one key: two features may want the
// same. What they want of a port is joined.
func unique(desired state.Desired) state.Desired {
	place := map[string]int{}
	var kept state.Desired
	for _, o := range desired {
		i, seen := place[o.Key()]
		if !seen {
			place[o.Key()] = len(kept)
			kept = append(kept, o)
			continue
		}
		if p, ok := o.(state.Port); ok {
			kept[i] = kept[i].(state.Port).Join(p)
		}
	}
	return kept
}
