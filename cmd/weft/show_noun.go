package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weft/internal/api"
	"weft/internal/daemon"
	"weft/internal/features"
	"weft/internal/noun"
)

var errNothing = errors.New("weft has nothing in the kernel here; weft run FILE starts it")

// nounCommand shows a noun, or one of its variants.
func nounCommand(n noun.Noun) *cobra.Command {
	var asJSON, watch, wide bool
	c := &cobra.Command{
		Use: n.Name, Aliases: n.Aliases, Short: n.Short, Long: n.Long, Example: nounExamples(n),
		Args:              nounWords(n),
		ValidArgsFunction: completeWord(n),
	}
	values := map[string]*string{}
	for _, one := range append([]noun.Noun{n}, n.Variants...) {
		for _, a := range one.Args {
			if !a.Word {
				values[a.Name] = nounFlag(c, a)
			}
		}
	}
	for _, a := range wordsOf(n) {
		c.Use += " " + a.placeholder()
	}
	for _, v := range n.Variants {
		c.Long += "\n\n" + v.Long
		c.Aliases = append(c.Aliases, v.Name)
	}
	c.RunE = func(cmd *cobra.Command, words []string) error {
		if err := needRoot("weft show"); err != nil {
			return err
		}
		l := looker{noun: n, values: given(values), json: asJSON, watch: watch, wide: wide, out: cmd.OutOrStdout()}
		for i, a := range wordsOf(n)[:len(words)] {
			l.values[a.Name] = words[i]
		}
		for _, v := range n.Variants {
			if l.values[v.Args[0].Name] != "" {
				l.noun = v
			}
		}
		return l.run(cmd.Context())
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&wide, "wide", false, "all columns, in lines of any length")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "again every second, until Ctrl-C")
	return c
}

// word is an argument that stands behind the noun.
type word struct {
	noun.Arg
	needed bool
}

func (w word) placeholder() string {
	if w.needed {
		return strings.ToUpper(w.Name)
	}
	return "[" + strings.ToUpper(w.Name) + "]"
}

// wordsOf lists the words that a noun takes; those of its variants may be left out.
func wordsOf(n noun.Noun) (list []word) {
	for _, a := range n.Args {
		if a.Word {
			list = append(list, word{a, a.Needed})
		}
	}
	for _, v := range n.Variants {
		for _, a := range v.Args {
			if a.Word {
				list = append(list, word{a, false})
			}
		}
	}
	return list
}

func nounExamples(n noun.Noun) string {
	lines := []string{}
	if list := wordsOf(n); len(list) == 0 || !list[0].needed {
		lines = append(lines, n.Name, n.Name+" --watch", n.Name+" --json")
	}
	for _, v := range append([]noun.Noun{n}, n.Variants...) {
		for _, e := range v.Examples {
			lines = append(lines, n.Name+" "+e)
		}
	}
	return "  weft show " + strings.Join(lines, "\n  weft show ")
}

// nounWords wants the words that there must be, and no more than there may be.
func nounWords(n noun.Noun) cobra.PositionalArgs {
	list := wordsOf(n)
	if len(list) == 0 {
		return cobra.NoArgs
	}
	var helps []string
	needed := 0
	for _, w := range list {
		helps = append(helps, w.Help)
		if w.needed {
			needed++
		}
	}
	return func(c *cobra.Command, args []string) error {
		if len(args) >= needed && len(args) <= len(list) {
			return nil
		}
		what := helps[0]
		if last := len(helps) - 1; last > 0 {
			what = strings.Join(helps[:last], ", ") + " and " + helps[last]
		}
		if needed == 0 {
			what += ", or none"
		}
		example, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
		return fmt.Errorf("%s takes %s: like %s", c.CommandPath(), what, example)
	}
}

// nounFlag adds a flag for an argument, and gives where its value is kept.
func nounFlag(c *cobra.Command, a noun.Arg) *string {
	v := &nounValue{arg: a}
	f := c.Flags().VarPF(v, a.Name, "", a.Help)
	if a.Kind == noun.Switch {
		f.NoOptDefVal = "true"
	}
	// the error is that of a flag that is not there
	_ = c.RegisterFlagCompletionFunc(a.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return complete(cmd.Context(), a), cobra.ShellCompDirectiveNoFileComp
	})
	return &v.text
}

// given lists the flags that are given.
func given(flags map[string]*string) map[string]string {
	values := map[string]string{}
	for name, value := range flags {
		if *value != "" {
			values[name] = *value
		}
	}
	return values
}

// nounValue is a flag's value, checked as the noun's own arguments are.
type nounValue struct {
	arg  noun.Arg
	text string
}

func (v *nounValue) String() string { return v.text }

func (v *nounValue) Type() string {
	return map[noun.Kind]string{noun.Text: "string", noun.Number: "int", noun.Port: "port", noun.Switch: "bool"}[v.arg.Kind]
}

func (v *nounValue) Set(text string) error {
	_, err := noun.NewQuery([]noun.Arg{v.arg}, map[string]string{v.arg.Name: text})
	v.text = text
	return err
}

func completeWord(n noun.Noun) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	list := wordsOf(n)
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(list) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c.Context(), list[len(args)].Arg), cobra.ShellCompDirectiveNoFileComp
	}
}

// complete returns what an argument may be, as far as that is known.
func complete(ctx context.Context, a noun.Arg) []string {
	name, column, found := strings.Cut(a.Column, " ")
	n, known := noun.Find(features.Nouns(), name)
	if !found || !known {
		return a.Values
	}
	rows, err := (&looker{noun: n}).look(ctx, &noun.Query{})
	if err != nil {
		return nil // there is nothing to offer
	}
	return rows.Cells(column)
}

// looker looks at a noun, once or again and again.
type looker struct {
	noun              noun.Noun
	values            map[string]string
	json, watch, wide bool
	out               io.Writer
	memory            any
}

func (l *looker) run(ctx context.Context) error {
	for {
		err := l.once(ctx)
		if l.watch && ctx.Err() != nil {
			return nil // Ctrl-C in the middle of a question
		}
		if err != nil || !l.watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (l *looker) once(ctx context.Context) error {
	q, err := noun.NewQuery(l.noun.Args, l.values)
	if err != nil {
		return err
	}
	rows, err := l.look(ctx, q)
	if err != nil {
		return err
	}
	if l.json {
		err = rows.JSON(l.out)
	} else if err = rows.Missing(q); err == nil {
		width := terminalWidth(l.out)
		if l.watch && width > 0 {
			fmt.Fprint(l.out, "\x1b[H\x1b[2J")
		}
		if l.watch {
			fmt.Fprintf(l.out, "%s\n", time.Now().Format(time.DateTime))
		}
		err = rows.Table(l.out, l.room(width))
	}
	if err == nil && rows.Faulty() {
		return errReported
	}
	return err
}

func (l *looker) look(ctx context.Context, q *noun.Query) (rows noun.Rows, err error) {
	r, err := daemon.Look()
	if err != nil {
		return rows, err
	}
	defer r.Close()
	if l.noun.From == noun.Daemon {
		return api.AskRows(ctx, r.Place.Socket(), l.noun, l.values)
	}
	d := r.Doors()
	if d.Datapath == nil && !l.noun.Idle {
		return rows, errNothing
	}
	q.Memory = l.memory
	q.Asker = func(ctx context.Context, name string, args map[string]string, into any) error {
		return api.Ask(ctx, r.Place.Socket(), name, args, into)
	}
	rows, err = l.noun.Rows(ctx, features.Sources(d, nil)(l.noun.Name), q)
	l.memory = q.Memory
	return rows, err
}

// room is the number of characters for a line of a table: those of the terminal, and where
// there is none as many as people read; 0: any. Text that no terminal shows is not broken,
// since a program may look for words in it.
func (l *looker) room(terminal int) int {
	switch {
	case l.wide:
		return 0
	case terminal > 0:
		return terminal
	case l.noun.Page:
		return 0
	}
	return 100
}

// terminalWidth is how many characters a line of a terminal has, 0 if w is none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
