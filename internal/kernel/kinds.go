package kernel

import (
	"context"
	"fmt"
	"reflect"

	"github.com/vishvananda/netlink"

	"weft/internal/state"
)

// kind is how objects of one kind of state.Kinds are observed and applied.
type kind struct {
	of      reflect.Type
	observe func(*Kernel, *view) ([]state.Object, error)
	apply   func(k *Kernel, ctx context.Context, o state.Object, remove bool) error
}

// kindOf makes a kind of the function that lists the objects of a type which are
// weft's or desired and the one that makes or removes one.
func kindOf[T state.Object](list func(*Kernel, *view) ([]T, error), apply func(*Kernel, context.Context, T, bool) error) kind {
	return kind{
		of: reflect.TypeFor[T](),
		observe: func(k *Kernel, v *view) ([]state.Object, error) {
			all, err := list(k, v)
			found := make([]state.Object, len(all))
			for i, o := range all {
				found[i] = o
			}
			return found, err
		},
		apply: func(k *Kernel, ctx context.Context, o state.Object, remove bool) error {
			return apply(k, ctx, o.(T), remove)
		},
	}
}

// eachLink makes such a function of one that looks at a single device.
func eachLink[T state.Object](look func(*Kernel, *view, netlink.Link) (T, bool, error)) func(*Kernel, *view) ([]T, error) {
	return func(k *Kernel, v *view) (all []T, err error) {
		for _, l := range v.links {
			o, is, err := look(k, v, l)
			if err != nil {
				return nil, err
			}
			if is {
				all = append(all, o)
			}
		}
		return all, nil
	}
}

func kinds() []kind {
	return []kind{
		kindOf(eachLink((*Kernel).observeDevice), (*Kernel).applyDevice),
		kindOf(eachLink((*Kernel).observePseudowire), (*Kernel).applyPseudowire),
		kindOf(eachLink((*Kernel).observeVXLAN), (*Kernel).applyVXLAN),
		kindOf(eachLink((*Kernel).observeLink), (*Kernel).applyLink),
		kindOf(eachLink((*Kernel).observeAllMulticast), (*Kernel).applyAllMulticast),
		kindOf(eachLink((*Kernel).observePromiscuous), (*Kernel).applyPromiscuous),
		kindOf(eachLink((*Kernel).observeTags), (*Kernel).applyTags),
		kindOf(eachLink((*Kernel).observeBridge), (*Kernel).applyBridge),
		kindOf(eachLink((*Kernel).observeBridgePort), (*Kernel).applyBridgePort),
		kindOf(eachLink((*Kernel).observeGuestDevice), (*Kernel).applyGuestDevice),
		kindOf(eachLink((*Kernel).observeNoOffloads), (*Kernel).applyNoOffloads),
		kindOf((*Kernel).observeVLANs, (*Kernel).applyBridgeVLAN),
		kindOf((*Kernel).observeBridgeAddresses, (*Kernel).applyBridgeAddress),
		kindOf((*Kernel).observeNeighbours, (*Kernel).applyNeighbour),
		kindOf((*Kernel).observeRefusalTrace, (*Kernel).applyRefusalTrace),
		kindOf((*Kernel).observeNFTables, (*Kernel).applyNFTable),
		kindOf((*Kernel).observeAddresses, (*Kernel).applyAddress),
		kindOf((*Kernel).observeRoutes, (*Kernel).applyRoute),
		kindOf((*Kernel).observeSysctls, (*Kernel).applySysctl),
	}
}

// Observe lists the existing objects of want, and those that weft created or changed
// earlier and that are not desired any more.
func (k *Kernel) Observe(ctx context.Context, want state.Desired) ([]state.Object, error) {
	v, err := k.view(ctx, want)
	if err != nil {
		return nil, err
	}
	var all []state.Object
	for _, kind := range kinds() {
		found, err := kind.observe(k, v)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Apply carries out one step.
func (k *Kernel) Apply(ctx context.Context, step state.Step) error {
	k.recent.Store(nil)
	of := reflect.TypeOf(step.Object)
	for _, kind := range kinds() {
		if kind.of == of {
			return kind.apply(k, ctx, step.Object, step.Op == state.Remove)
		}
	}
	return fmt.Errorf("the kernel has no such thing: %s", step.Object)
}
