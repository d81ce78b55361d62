// Package noun says what a noun of `weft show` is. The table, the JSON, --watch, completion, the
// answer on the daemon's socket and the metrics come from one declaration (Of), which stands in
// rows.go of the feature that knows the rows.
package noun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"time"
)

// From says where the rows of a noun come from.
type From uint8

const (
	Maps   From = iota // pinned maps and the kernel: works without the daemon
	Daemon             // the daemon knows them; others ask it by the socket
	Both               // as Maps, and more if the daemon answers (Query.Ask)
)

// ErrNoDaemon says that no daemon answers on the socket.
var ErrNoDaemon = errors.New("no weft run is answering")

// Of declares a noun: R is the type of its rows, S what they are read from. S is an interface that
// the feature declares and its running half implements.
type Of[S, R any] struct {
	Name     string
	Short    string // what it shows, in a line
	Long     string // what the columns mean
	Aliases  []string
	Examples []string // what may follow weft show, besides the name alone
	From     From
	Idle     bool // it can be asked while weft has nothing in the kernel
	Hidden   bool // no command: for programs, other nouns and metrics
	Args     []Arg
	// Variants are nouns that are shown instead when their first argument is given, such as
	// one row in detail.
	Variants []Noun

	Rows func(ctx context.Context, from S, q *Query) iter.Seq2[R, error]
	One  bool // there is one row, and its JSON stands without a list around it

	Columns []Column[R]
	Page    func(w io.Writer, rows []R)    // what is printed instead of a table; tabs align
	None    string                         // what is printed if there are no rows; "none" if it is empty
	Faulty  func(R) bool                   // the command fails after it has shown such a row
	Missing func(rows []R, q *Query) error // the command fails with it instead of a table

	Metrics []Metric[R]
	// Zeroes puts a zero for each time series of Metrics without a row. A missing series
	// would look like a metric that does not exist.
	Zeroes func(ctx context.Context, from S, put Put)
}

// Column is a column of the table.
type Column[R any] struct {
	Name string
	Text func(R) string
	Wide bool // left out where the terminal is too narrow for the whole table
}

// Noun is a declaration whose types are hidden.
type Noun struct {
	Name, Short, Long string
	Aliases, Examples []string
	From              From
	Idle, Hidden      bool
	Page              bool // text instead of a table
	Args              []Arg
	Variants          []Noun
	Columns           []string
	Metrics           []Definition
	of                erased
}

// erased is Of without its types. Rows are a []R inside the any.
type erased interface {
	serves(source any) bool
	keys() []string
	rows(ctx context.Context, source any, q *Query) (any, error)
	encode(ctx context.Context, w io.Writer, source any, q *Query) error
	decode(r io.Reader) (any, error)
	json(w io.Writer, rows any) error
	table(w io.Writer, rows any, width int) error
	cells(rows any, column string) []string
	faulty(rows any) bool
	missing(rows any, q *Query) error
	measure(ctx context.Context, source any, q *Query, put Put) error
}

// Noun hides the types of a declaration.
func (o Of[S, R]) Noun() Noun {
	n := Noun{
		Name: o.Name, Short: o.Short, Long: o.Long, Aliases: o.Aliases, Examples: o.Examples, From: o.From, Idle: o.Idle, Hidden: o.Hidden,
		Page: o.Page != nil, Args: o.Args, Variants: o.Variants, of: o,
	}
	for _, c := range o.Columns {
		n.Columns = append(n.Columns, c.Name)
	}
	for _, m := range o.Metrics {
		n.Metrics = append(n.Metrics, m.Definition)
	}
	return n
}

// All gives nouns with their variants, hidden ones too.
func All(nouns []Noun) iter.Seq[Noun] {
	return func(yield func(Noun) bool) {
		for _, n := range nouns {
			if !yield(n) {
				return
			}
			for v := range All(n.Variants) {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// Find returns the noun of a name.
func Find(nouns []Noun, name string) (Noun, bool) {
	for n := range All(nouns) {
		if n.Name == name {
			return n, true
		}
	}
	return Noun{}, false
}

// JSONKeys lists what the JSON of a row may have, each with its type: "hops[].mtu number".
func (n Noun) JSONKeys() []string { return n.of.keys() }

// Serves reports whether the noun's rows can be read from a source.
func (n Noun) Serves(source any) bool { return n.of.serves(source) }

// Rows reads the rows from a source.
func (n Noun) Rows(ctx context.Context, source any, q *Query) (Rows, error) {
	rows, err := n.of.rows(ctx, source, q)
	return Rows{n.of, rows}, err
}

// Encode writes the rows as JSON, each as it comes. Nothing is written if the first one is an error.
func (n Noun) Encode(ctx context.Context, w io.Writer, source any, q *Query) error {
	return n.of.encode(ctx, w, source, q)
}

// Decode reads rows that Encode wrote.
func (n Noun) Decode(r io.Reader) (Rows, error) {
	rows, err := n.of.decode(r)
	return Rows{n.of, rows}, err
}

// Measure puts the values of the noun's metrics, each set of labels once.
func (n Noun) Measure(ctx context.Context, source any, q *Query, put Put) error {
	return n.of.measure(ctx, source, q, put)
}

// Rows are rows of a noun.
type Rows struct {
	of   erased
	list any
}

// JSON prints them for programs: a list, empty if there are none, or the one row.
func (r Rows) JSON(w io.Writer) error { return r.of.json(w, r.list) }

// Table prints them for people, in width columns of characters; 0 is any width.
func (r Rows) Table(w io.Writer, width int) error { return r.of.table(w, r.list, width) }

// Cells returns what stands in a column, without repetition.
func (r Rows) Cells(column string) []string { return r.of.cells(r.list, column) }

// Missing is the error that people get instead of a table, if what they ask for is not there.
func (r Rows) Missing(q *Query) error { return r.of.missing(r.list, q) }

// Faulty reports whether a row says that something is wrong.
func (r Rows) Faulty() bool { return r.of.faulty(r.list) }

func (o Of[S, R]) serves(source any) bool {
	_, ok := source.(S)
	return ok
}

func (o Of[S, R]) keys() []string { return jsonKeys("", reflect.TypeFor[R]()) }

// each reads from a source; what is not one is an error.
func (o Of[S, R]) each(ctx context.Context, source any, q *Query) iter.Seq2[R, error] {
	from, ok := source.(S)
	if !ok {
		return List[R](nil, fmt.Errorf("%s cannot be read from %T", o.Name, source))
	}
	if q == nil {
		q = &Query{}
	}
	return o.Rows(ctx, from, q)
}

func (o Of[S, R]) rows(ctx context.Context, source any, q *Query) (any, error) {
	list := []R{}
	for r, err := range o.each(ctx, source, q) {
		if err != nil {
			return list, err
		}
		list = append(list, r)
	}
	return list, nil
}

func (o Of[S, R]) faulty(rows any) bool {
	for _, r := range rows.([]R) {
		if o.Faulty != nil && o.Faulty(r) {
			return true
		}
	}
	return false
}

func (o Of[S, R]) missing(rows any, q *Query) error {
	if o.Missing == nil {
		return nil
	}
	return o.Missing(rows.([]R), q)
}

func (o Of[S, R]) cells(rows any, column string) (list []string) {
	seen := map[string]bool{"": true, "-": true}
	for _, c := range o.Columns {
		if c.Name != column {
			continue
		}
		for _, r := range rows.([]R) {
			if text := c.Text(r); !seen[text] {
				seen[text] = true
				list = append(list, text)
			}
		}
	}
	return list
}

// List gives rows that are all there; an error comes instead of them.
func List[R any](rows []R, err error) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		if err != nil {
			var none R
			yield(none, err)
			return
		}
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Row gives one row, or an error.
func Row[R any](row R, err error) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) { yield(row, err) }
}

// Dash stands for what is not there.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// YesNo is a truth for people.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Age returns for how long something has been.
func Age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return time.Since(since).Round(time.Second).String()
}

// Joined puts a space between words.
func Joined[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, " ")
}

// Valid returns the text of an address or prefix, or a dash if it is the zero one.
func Valid[T interface {
	fmt.Stringer
	IsValid() bool
}](v T) string {
	if !v.IsValid() {
		return "-"
	}
	return v.String()
}
