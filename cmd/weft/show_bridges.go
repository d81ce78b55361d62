package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"weft/internal/api"
	"weft/internal/daemon"
)

func bridgesNoun() oldNoun {
	return oldNoun{"bridges", "The bridges, their ports, who is behind them, and what was dropped there", `Each [bridge.NAME] with its ports. HOST says whether the router takes part,
VLANS who tells them apart: the kernel, weft's programs, or nobody because
there is one. A port that is absent has not joined. MACS are the source
addresses seen there in the last five minutes; = marks those of weft.toml.
Below a port stands what it dropped, by reason; below the bridge, what was
dropped between it and the router.`, showBridges, tableBridges}
}

func showBridges(_ context.Context, r *daemon.Router) (any, error) {
	facts, err := r.Facts()
	if err != nil {
		return nil, err
	}
	rows, err := api.Bridges(r.Datapath(), facts.Links)
	return emptyNotNull(rows), err
}

func tableBridges(w io.Writer, rows any) {
	for _, b := range rows.([]api.Bridge) {
		fmt.Fprintf(w, "bridge %s\thost %s\tvlans %s\n", b.Device, yesNo(b.Host), b.VLANs)
		tableDrops(w, b.HostDrops)
		fmt.Fprintln(w, "PORT\tROLE\tSTATE\tVLAN\tISOLATED\tLOCKED\tMACS")
		for _, p := range b.Ports {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Device, p.Role, portState(p), portVLANs(p), yesNo(p.Isolated), yesNo(p.Locked), portMACs(p))
			tableDrops(w, p.Drops)
		}
	}
}

func portState(p api.BridgePort) string {
	switch {
	case !p.Joined:
		return "absent"
	case p.Up:
		return "up"
	}
	return "down"
}

func portVLANs(p api.BridgePort) string {
	var words []string
	if p.VLAN != 0 {
		words = append(words, strconv.Itoa(p.VLAN))
	}
	if p.VLANs != "" {
		words = append(words, "tagged "+p.VLANs)
	}
	return dash(strings.Join(words, ", "))
}

func portMACs(p api.BridgePort) string {
	var words []string
	for _, m := range p.MACs {
		if m.Fixed {
			m.MAC = "=" + m.MAC
		}
		words = append(words, m.MAC)
	}
	return dash(strings.Join(words, " "))
}

func tableDrops(w io.Writer, drops []api.BridgeDrop) {
	for _, d := range drops {
		fmt.Fprintf(w, "  %s\t%d\t%s\n", d.Outcome, d.Frames, d.Meaning)
	}
}
