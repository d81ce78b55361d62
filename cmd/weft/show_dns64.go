package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"weft/internal/api"
	"weft/internal/daemon"
)

func dns64Noun() oldNoun {
	return oldNoun{"dns64", "What the name server of [dns64] does", `Where the name server listens, how its forwarders are, and what it did. A
forwarder that failed rests for a while: the others are asked first. The daemon
knows all this, so weft run must be running.`, showDNS64, tableDNS64}
}

func showDNS64(ctx context.Context, r *daemon.Router) (any, error) {
	var d *api.DNS64
	if err := api.AskPath(ctx, r.Place.Socket(), "/v1/dns64", &d); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, errors.New("the configuration has no [dns64]")
	}
	return d, nil
}

func tableDNS64(w io.Writer, rows any) {
	d := rows.(*api.DNS64)
	fmt.Fprintf(w, "listens on\t%s\n", dash(strings.Join(d.Listen, " ")))
	fmt.Fprintf(w, "keeps\t%d answers\n\n", d.Cached)
	fmt.Fprintln(w, "FORWARDER\tASKED\tFAILED\tLAST\tSTATE")
	for _, f := range d.Forwarders {
		state := "answers"
		switch {
		case f.Resting:
			state = "rests: " + f.Error
		case f.Error != "":
			state = "failed last: " + f.Error
		case f.Asked == 0:
			state = "not asked yet"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", f.Forwarder, f.Asked, f.Failed, f.Last.Round(100*time.Microsecond), state)
	}
	fmt.Fprintln(w, "\nEVENT\tCOUNT\tMEANING")
	for _, c := range d.Counters {
		if c.Count > 0 {
			fmt.Fprintf(w, "%s\t%d\t%s\n", c.Name, c.Count, c.Meaning)
		}
	}
}
