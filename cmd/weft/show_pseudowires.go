package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"weft/internal/api"
	"weft/internal/daemon"
)

func pseudowireNoun() oldNoun {
	return oldNoun{"pseudowires", "The pseudowires, what they carried, and what they did not", `For each [pseudowire.NAME]: its ends, the session, key or network number each
way, the MTU of its interface, and what it carried. Packets are counted
as on the wire, bytes are those of the frames inside. FAULTS says how many
packets it did not carry, by reason:

  source     for it, but from another address or port than its other end's
  cookie     with another cookie
  header     with a version, flags or parts that it does not have
  truncated  shorter than its headers say
  sequence   behind what came before it
  checksum   a wrong GRE checksum
  ecn        congestion under way that the frame cannot tell of (RFC 6040)
  too-big    larger than it takes; answered: its sender was told
  no-way     there was no route, or no link address, to the other end
  kernel     a kernel helper refused (out of memory, packet shape)

(rx joined=N) are no faults: N of the packets that were received came in pieces,
which the kernel joined. It costs much more time than whole packets do.

LEARNT is the MTU of the path that a router under way has told of. What comes
with an unknown session is in weft show drops. Pseudowires of kind vxlan are the
kernel's, and so are their counts: rx-errors, rx-dropped, tx-errors, tx-dropped.`, showPseudowires, tablePseudowires}
}

func showPseudowires(_ context.Context, r *daemon.Router) (any, error) {
	facts, err := r.Facts()
	if err != nil {
		return nil, err
	}
	rows, err := api.Pseudowires(r.Datapath(), facts.Links)
	if err != nil {
		return nil, err
	}
	vxlans, err := r.VXLANs()
	return emptyNotNull(api.WithVXLANs(rows, vxlans)), err
}

func tablePseudowires(w io.Writer, rows any) {
	if len(rows.([]api.Pseudowire)) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "DEVICE\tKIND\tLOCAL\tREMOTE\tRX\tTX\tMTU\tLEARNT\tRX PACKETS\tRX BYTES\tTX PACKETS\tTX BYTES\tFAULTS")
	for _, p := range rows.([]api.Pseudowire) {
		var faults []string
		if p.RxJoined != 0 {
			faults = append(faults, fmt.Sprintf("(rx joined=%d)", p.RxJoined))
		}
		for reason, n := range p.Faults {
			faults = append(faults, fmt.Sprintf("%s=%d", reason, n))
		}
		slices.Sort(faults)
		if !p.Resolved {
			faults = append(faults, "(link address not known)")
		}
		learnt := "-"
		if p.PathMTU != 0 {
			learnt = fmt.Sprint(p.PathMTU)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%s\n", p.Device, p.Kind, p.Local, p.Remote, p.Rx, p.Tx,
			p.MTU, learnt, p.RxPackets, p.RxBytes, p.TxPackets, p.TxBytes, dash(strings.Join(faults, " ")))
	}
}
