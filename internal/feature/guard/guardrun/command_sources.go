package guardrun

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/datapath/guardtable"
	"weft/internal/feature/guard"
	"weft/internal/runner"
)

func sourcesFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "file", "", "file with more prefixes, one per line as in files of [block]; - is standard input")
}

func someSources(c *cobra.Command, args []string) error {
	if len(args) == 0 && !c.Flags().Changed("file") {
		return fmt.Errorf("%s takes addresses or prefixes, like 192.0.2.1 or 2001:db8::/32, or --file with a list of them", c.CommandPath())
	}
	return nil
}

// sources returns the prefixes of arguments and of a file; empty: there is none.
func sources(c *cobra.Command, r runner.Commands, file string, args []string) (list []netip.Prefix, err error) {
	what := c.CommandPath()
	if err := r.Root(what); err != nil {
		return nil, err
	}
	for _, a := range args {
		p, err := guard.ParsePrefix(a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		list = append(list, p)
	}
	if file != "" {
		more, err := sourcesIn(c.InOrStdin(), file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		list = append(list, more...)
	}
	for _, p := range list {
		if p.Bits() == 0 {
			return nil, fmt.Errorf("%s: %s contains all addresses", what, p)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %s has no prefixes", what, nameOf(file))
	}
	return list, nil
}

func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

func sourcesIn(stdin io.Reader, file string) ([]netip.Prefix, error) {
	if file == "-" {
		return guard.ReadFile(nameOf(file), stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return guard.ReadFile(file, f)
}

// changeBlocked changes the blocks of weft block, waits until they are in force,
// and reports the blocked sources that an exception still accepts.
func changeBlocked(c *cobra.Command, r runner.Commands, blocked []netip.Prefix, change func([]guard.Blocked) ([]guard.Blocked, error)) error {
	d, done, err := r.Open()
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	if err := SetBlocked(d.Paths, change); err != nil {
		return err
	}
	guards, err := guardtable.Of(d.Datapath).Guards()
	if err != nil {
		return err
	}
	err = awaitBlocked(c, r, d, len(guards) > 0)
	switch {
	case errors.Is(err, runner.ErrNoDaemon):
		fmt.Fprintln(c.ErrOrStderr(), "stored; weft run is not running, and applies it when it starts")
		return nil
	case err == nil && len(guards) == 0:
		fmt.Fprintln(c.ErrOrStderr(), "stored; no interface is guarded, so nothing is dropped: weft.toml needs a [guard.NAME]")
		return nil
	case err != nil:
		return err
	}
	return notifyLetIn(c.ErrOrStderr(), d, blocked)
}

const (
	blockedSoon  = 2 * time.Second  // after this the command says what it waits for
	blockedLimit = 60 * time.Second // for a list of millions
)

// awaitBlocked waits until the daemon's list has the stored blocks, if the daemon runs.
func awaitBlocked(c *cobra.Command, r runner.Commands, d runner.Doors, guarded bool) error {
	noted, err := BlockedAt(d.Paths)
	if err != nil {
		return err
	}
	start, said := time.Now(), false
	for {
		var lists []guard.BlockList
		if err := r.Show(c.Context(), d, guard.BlockListNoun, &lists); err != nil || !guarded {
			return err
		}
		if len(lists) > 0 && !lists[0].Commands.Before(noted) {
			return nil
		}
		waited := time.Since(start)
		if waited > blockedLimit {
			return fmt.Errorf("%s: stored, but weft run has not applied it for %s: its log gives the reason", c.CommandPath(), blockedLimit)
		}
		if waited > blockedSoon && !said {
			fmt.Fprintln(c.ErrOrStderr(), "stored; weft run is applying the list ...")
			said = true
		}
		select {
		case <-c.Context().Done():
			return c.Context().Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// letInMost is how many are listed.
const letInMost = 10

func notifyLetIn(w io.Writer, d runner.Doors, blocked []netip.Prefix) error {
	free, err := guardtable.Of(d.Datapath).GuardLetsIn(blocked)
	if err != nil {
		return err
	}
	for i, p := range free {
		if i == letInMost {
			fmt.Fprintf(w, "and %d more\n", len(free)-i)
			break
		}
		fmt.Fprintf(w, "%s is still accepted: it is in an exception of [block]\n", guard.SourceText(p))
	}
	return nil
}
