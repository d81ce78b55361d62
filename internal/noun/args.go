package noun

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Kind is what an argument takes.
type Kind uint8

const (
	Text   Kind = iota
	Number      // none, or more
	Port        // 1 to 65535
	Switch      // true, or not given
)

// Arg is an argument of a noun: a flag, or a word behind the noun.
type Arg struct {
	Name, Help string
	Kind       Kind
	Word       bool     // it is a word, not a flag
	Needed     bool     // of a word: it must be there
	Values     []string // the only ones, if there are any
	Column     string   // NOUN COLUMN: completion offers what stands there
}

// Query is a question for a noun.
type Query struct {
	values map[string]string
	// Ask asks the daemon for the rows of another noun; ErrNoDaemon if it does not run. Nil is
	// no daemon.
	Asker func(ctx context.Context, noun string, args map[string]string, into any) error
	// Memory is what the noun keeps from one look of --watch to the next.
	Memory any
}

// NewQuery checks arguments and makes a question of them.
func NewQuery(args []Arg, values map[string]string) (*Query, error) {
	q := &Query{values: map[string]string{}}
	for name, value := range values {
		i := slices.IndexFunc(args, func(a Arg) bool { return a.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no argument %q", name)
		}
		if err := args[i].check(value); err != nil {
			return nil, err
		}
		q.values[name] = value
	}
	for _, a := range args {
		if a.Needed && q.values[a.Name] == "" {
			return nil, fmt.Errorf("%s is not given", strings.ToUpper(a.Name))
		}
	}
	return q, nil
}

func (a Arg) check(value string) error {
	name := "--" + a.Name
	if a.Word {
		name = strings.ToUpper(a.Name)
	}
	if value == "" {
		return nil
	}
	if len(a.Values) > 0 && !slices.Contains(a.Values, value) {
		return fmt.Errorf("%s %q is none of %s", name, value, words(a.Values))
	}
	switch a.Kind {
	case Number:
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%s %q is not a number", name, value)
		}
		if n < 0 {
			return fmt.Errorf("%s %d is negative", name, n)
		}
	case Port:
		if n, err := strconv.ParseUint(value, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%s %q: a port is a number from 1 to 65535", name, value)
		}
	case Switch:
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("%s %q is neither true nor false", name, value)
		}
	}
	return nil
}

// words lists words as a sentence does.
func words(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// Prefix reads an argument that is a prefix or one address.
func Prefix(flag, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, errAddr := netip.ParseAddr(text)
		if errAddr != nil {
			return p, fmt.Errorf("%s %q is neither an address nor a prefix", flag, text)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return p.Masked(), nil
}

// Text returns an argument, empty if it is not given.
func (q *Query) Text(name string) string { return q.values[name] }

// Number returns an argument of kind Number or Port, 0 if it is not given.
func (q *Query) Number(name string) int {
	n, _ := strconv.Atoi(q.values[name]) // NewQuery has checked it
	return n
}

// On reports whether a Switch is given.
func (q *Query) On(name string) bool {
	on, _ := strconv.ParseBool(q.values[name]) // NewQuery has checked it
	return on
}

// Ask asks the daemon for the rows of another noun.
func (q *Query) Ask(ctx context.Context, noun string, args map[string]string, into any) error {
	if q.Asker == nil {
		return ErrNoDaemon
	}
	return q.Asker(ctx, noun, args, into)
}

// AskIfThere is Ask; without a daemon it does nothing.
func (q *Query) AskIfThere(ctx context.Context, noun string, args map[string]string, into any) error {
	if err := q.Ask(ctx, noun, args, into); !errors.Is(err, ErrNoDaemon) {
		return err
	}
	return nil
}
