package datapath

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"weft/internal/state"
)

// Kind is how objects of one kind of state.Kinds are observed and applied.
type Kind struct {
	of      reflect.Type
	observe func(d *Datapath, want state.Desired) ([]state.Object, error)
	apply   func(d *Datapath, o state.Object, remove bool) error
}

// kindOf joins what lists all objects of a type with what writes or removes one.
func kindOf[T state.Object](list func(*Datapath) ([]T, error), apply func(*Datapath, T, bool) error) Kind {
	observe := func(d *Datapath, _ state.Desired) ([]T, error) { return list(d) }
	return kindFor(observe, apply)
}

// kindFor is kindOf for a type whose objects look different if they are wanted.
func kindFor[T state.Object](list func(*Datapath, state.Desired) ([]T, error), apply func(*Datapath, T, bool) error) Kind {
	return Kind{
		of: reflect.TypeFor[T](),
		observe: func(d *Datapath, want state.Desired) ([]state.Object, error) {
			all, err := list(d, want)
			found := make([]state.Object, len(all))
			for i, o := range all {
				found[i] = o
			}
			return found, err
		},
		apply: func(d *Datapath, o state.Object, remove bool) error { return apply(d, o.(T), remove) },
	}
}

func kinds() []Kind {
	return []Kind{
		kindOf((*Datapath).Attachments, (*Datapath).applyAttachment),
		kindOf((*Datapath).Translators, (*Datapath).writeTranslator),
		kindOf((*Datapath).Binders, (*Datapath).writeBinder),
		kindOf((*Datapath).Statics, (*Datapath).writeStatic),
		kindOf((*Datapath).Rules, (*Datapath).writeRule),
		kindOf((*Datapath).Ports, (*Datapath).writePort),
		kindOf((*Datapath).Guards, (*Datapath).writeGuard),
		kindOf((*Datapath).RouteTables, (*Datapath).applyRouteTables),
		kindOf((*Datapath).Pseudowires, (*Datapath).writeWire),
		kindOf((*Datapath).WirePorts, (*Datapath).writeWirePort),
		kindOf((*Datapath).lowers, (*Datapath).writeLower),
		kindOf((*Datapath).proxies, (*Datapath).writeProxy),
		kindOf((*Datapath).Accesses, (*Datapath).applyAccess),
		kindOf((*Datapath).gardens, (*Datapath).writeGarden),
		kindFor((*Datapath).observeBridgeGuards, (*Datapath).applyBridgeGuard),
		kindOf((*Datapath).stations, (*Datapath).applyStation),
	}
}

// Observe lists everything in the datapath; all of it is weft's. Maps that
// another version did not have hold nothing.
func (d *Datapath) Observe(ctx context.Context, want state.Desired) ([]state.Object, error) {
	var all []state.Object
	for _, k := range kinds() {
		found, err := k.observe(d, want)
		if errors.Is(err, ErrOtherVersion) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %v: %w", k.of, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Apply carries out one step.
func (d *Datapath) Apply(ctx context.Context, step state.Step) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	of := reflect.TypeOf(step.Object)
	for _, k := range kinds() {
		if k.of == of {
			return k.apply(d, step.Object, step.Op == state.Remove)
		}
	}
	return fmt.Errorf("the datapath has no such thing: %s", step.Object)
}
