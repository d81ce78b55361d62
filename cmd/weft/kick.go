package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
)

// kickCommand ends subscribers' sessions.
func kickCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kick WHO",
		Short: "End a subscriber's session",
		Long: `End the sessions of a subscriber: WHO is a login, an address of theirs, or the
number of a session as weft show subscribers has it. The subscriber gets a PPP
Terminate-Request and may log in again. With l2tp_client.NAME this router's own
session with a server ends, and starts again. It fails if there is no such
session.`,
		Example: "  weft kick alice@example.net\n  weft kick 203.0.113.5\n  weft kick 4711\n  weft kick l2tp_client.isp",
		Args:    oneArgument("a login, an address or a session", "weft show subscribers lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft kick"); err != nil {
				return err
			}
			r, err := daemon.Look()
			if err != nil {
				return err
			}
			defer r.Close()
			k, err := api.Kick(cmd.Context(), r.Place.Socket(), args[0])
			if err != nil {
				return err
			}
			if k.Sessions == 0 {
				return fmt.Errorf("there is no session of %q: weft show subscribers lists those that there are", args[0])
			}
			fmt.Fprintf(cmd.OutOrStdout(), "sessions ended: %d\n", k.Sessions)
			return nil
		},
	}
}
