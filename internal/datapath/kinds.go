package datapath

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"weft/internal/state"
)

// Kind observes and applies objects of one kind of state.Kinds.
type Kind struct {
	Of      reflect.Type
	Observe func(d *Datapath, want state.Desired) ([]state.Object, error)
	Apply   func(d *Datapath, o state.Object, remove bool) error
}

// KindOf makes a Kind of the function that lists all objects of a type and the one
// that writes or removes one; both are methods of the tables that of returns.
func KindOf[T state.Object, B any](of func(*Datapath) B, list func(B) ([]T, error), apply func(B, T, bool) error) Kind {
	observe := func(b B, _ state.Desired) ([]T, error) { return list(b) }
	return KindFor(of, observe, apply)
}

// KindFor is KindOf for a type whose observed form depends on the desired state.
func KindFor[T state.Object, B any](of func(*Datapath) B, list func(B, state.Desired) ([]T, error), apply func(B, T, bool) error) Kind {
	return Kind{
		Of: reflect.TypeFor[T](),
		Observe: func(d *Datapath, want state.Desired) ([]state.Object, error) {
			all, err := list(of(d), want)
			found := make([]state.Object, len(all))
			for i, o := range all {
				found[i] = o
			}
			return found, err
		},
		Apply: func(d *Datapath, o state.Object, remove bool) error { return apply(of(d), o.(T), remove) },
	}
}

// kinds are the core's own, and those of the typed tables.
func (d *Datapath) kinds() []Kind {
	itself := func(d *Datapath) *Datapath { return d }
	all := []Kind{KindOf(itself, (*Datapath).Attachments, (*Datapath).applyAttachment)}
	for _, p := range d.options.Parts {
		all = append(all, p.Kinds...)
	}
	return all
}

// Kinds returns the types of the objects that the datapath observes and applies.
func (d *Datapath) Kinds() (types []reflect.Type) {
	for _, k := range d.kinds() {
		types = append(types, k.Of)
	}
	return types
}

// Observe lists all objects in the datapath; all of them are weft's. Maps that
// another version did not have are empty.
func (d *Datapath) Observe(ctx context.Context, want state.Desired) ([]state.Object, error) {
	var all []state.Object
	for _, k := range d.kinds() {
		found, err := k.Observe(d, want)
		if errors.Is(err, ErrOtherVersion) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %v: %w", k.Of, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Apply carries out one step.
func (d *Datapath) Apply(ctx context.Context, step state.Step) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	defer d.applied.Add(1)
	of := reflect.TypeOf(step.Object)
	for _, k := range d.kinds() {
		if k.Of == of {
			return k.Apply(d, step.Object, step.Op == state.Remove)
		}
	}
	return fmt.Errorf("the datapath has no such object: %s", step.Object)
}

// ApplySome applies the steps at the head of a series that one part can apply
// together, and returns their number; 0 if there is no such part.
func (d *Datapath) ApplySome(ctx context.Context, steps []state.Step) (done int, err error) {
	d.changing.Lock()
	defer d.changing.Unlock()
	defer d.applied.Add(1)
	for _, p := range d.options.Parts {
		if p.Together == nil {
			continue
		}
		if done, err = p.Together(ctx, d, steps); done != 0 || err != nil {
			return done, err
		}
	}
	return 0, nil
}
