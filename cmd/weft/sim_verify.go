package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/simulate/reality"
)

func simVerify() *cobra.Command {
	var rounds int
	var asJSON, others bool
	c := &cobra.Command{
		Use: "verify", Short: "Compare the simulator with the kernel's MPTCP", Args: cobra.NoArgs,
		Long: `Sends a bulk transfer and a mix of short ones by MPTCP (CUBIC) between two
network namespaces, over links of 20 Mbit/s with 10 ms and 5 Mbit/s with 50 ms,
and compares the durations with the simulator's. The links are TUN devices
served by this program, which runs with real-time priority meanwhile; rounds in
which the machine was too busy are repeated.`,
		Example: "  weft sim verify --rounds 9\n  weft sim verify --others --json",
	}
	c.Flags().IntVar(&rounds, "rounds", 5, "rounds")
	c.Flags().BoolVar(&asJSON, "json", false, "a JSON array with one object per workload, times in nanoseconds")
	c.Flags().BoolVar(&others, "others", false, "also other sizes on these links, and two other pairs of links")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := needRoot("weft sim verify"); err != nil {
			return err
		}
		if rounds < 1 {
			return errors.New("verify needs at least one round: --rounds 5")
		}
		work := reality.Workloads()
		if others {
			work = append(work, reality.Others()...)
		}
		ctx, stop := labContext(c)
		defer stop()
		all, err := reality.Verify(ctx, "weftsim", work, rounds, func(what string) {
			fmt.Fprintln(c.ErrOrStderr(), what)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(c.OutOrStdout()).Encode(all)
		}
		return reality.Print(c.OutOrStdout(), all)
	}
	return c
}
