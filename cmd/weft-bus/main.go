// Command weft-bus is the helper process of weft in which NATS runs: the server of
// this router's stream of sessions, and the readers of its peers' streams. weft
// run starts it for [session_sync]; it does nothing on its own.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"weft/internal/bus"
	"weft/internal/bus/natsbus"
	"weft/internal/version"
)

func main() {
	if len(os.Args) > 1 {
		if os.Args[1] == "--version" {
			fmt.Println(bus.Program, version.String())
			return
		}
		fmt.Fprintf(os.Stderr, "%s is the helper of weft run for [session_sync]; it has no commands, only --version\n", bus.Program)
		os.Exit(2)
	}
	if err := natsbus.Serve(context.Background(), slog.Default()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", bus.Program, err)
		os.Exit(1)
	}
}
