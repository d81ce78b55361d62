package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"weft/internal/api"
	"weft/internal/daemon"
)

func statusNoun() oldNoun {
	return oldNoun{"status", "Which weft runs, and which configuration is in force", `The program, since when it runs, and when the configuration that is in force was
read. If the last reload was refused, that one is older than the file: why
stands below. The daemon knows all this, so weft run must be running.`, showStatus, tableStatus}
}

func showStatus(ctx context.Context, r *daemon.Router) (any, error) {
	var s api.Status
	err := api.AskPath(ctx, r.Place.Socket(), "/v1/status", &s)
	return s, err
}

func tableStatus(w io.Writer, rows any) {
	s := rows.(api.Status)
	fmt.Fprintf(w, "weft\t%s, process %d\n", s.Version, s.PID)
	fmt.Fprintf(w, "runs\tfor %s\n", age(s.Started))
	fmt.Fprintf(w, "file\t%s\n", s.File)
	fmt.Fprintf(w, "configuration\tas it was read %s, %s ago\n", s.Applied.Format(time.DateTime), age(s.Applied))
	if s.BlockList != nil {
		fmt.Fprintf(w, "block list\t%d prefixes in force\n", s.BlockList.Entries)
	}
	if s.Refused == nil {
		return
	}
	fmt.Fprintf(w, "reload\trefused %s, %s ago: the file is not what is in force\n", s.Refused.At.Format(time.DateTime), age(s.Refused.At))
	for _, why := range s.Refused.Why {
		fmt.Fprintf(w, "\t%s\n", why)
	}
}
