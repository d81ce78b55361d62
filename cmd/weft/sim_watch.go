package main

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/simulate/watch"
	"weft/internal/web"
)

func simWatch() *cobra.Command {
	var listen, schedulers string
	var remote bool
	var set []string
	c := &cobra.Command{
		Use: "watch [SCENARIO|FILE]", Short: "Watch a scenario in the browser", Args: cobra.MaximumNArgs(1),
		Long: `Shows runs of the simulator as a page: streams as bars that shrink, paths as
queues with packets that move, two schedulers side by side on the same arrivals.
Time can be paused, slowed and scrubbed, and the values of the scenario changed.

The page is served on this machine only, at a free port unless --listen sets
one; Ctrl-C ends it. It needs nothing from the network. A FILE is read again for
each run. The page lists its keys (press ?).`,
		Example: "  weft sim watch\n  weft sim watch chunks --schedulers lowrtt,ecf\n  weft sim watch blocking --set path.mobile.delay=100ms --listen 127.0.0.1:8080",
	}
	c.Flags().StringVar(&schedulers, "schedulers", "", "one or two to begin with, with a comma (default: the scenario's and one beside it)")
	c.Flags().StringArrayVar(&set, "set", nil, "change a value of the scenario, like path.slow.delay=80ms; may be repeated")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback address and port; port 0 is any free one")
	c.Flags().BoolVar(&remote, "remote", false, "allow any address for --listen: all hosts that reach it can run simulations")
	c.RunE = func(c *cobra.Command, args []string) error {
		o := watch.Options{
			Set: set, Limits: watch.DefaultLimits(), Runs: max(1, runtime.NumCPU()/2),
			Log: func(err error) { slog.Error("answer a request of the page", "error", err) },
		}
		if schedulers != "" {
			o.Schedulers = strings.Split(schedulers, ",")
		}
		if len(args) == 1 {
			o.Scenario = args[0]
			if strings.ContainsRune(args[0], '/') || strings.HasSuffix(args[0], ".toml") {
				o.File = args[0]
			}
		}
		err := watch.Serve(c.Context(), listen, remote, o, func(url string) {
			fmt.Fprintf(c.OutOrStdout(), "%s\nCtrl-C ends it.\n", url)
		})
		if errors.Is(err, web.ErrNotLoopback) {
			return fmt.Errorf("%w: add --remote if they may", err)
		}
		return err
	}
	return c
}
