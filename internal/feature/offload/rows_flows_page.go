package offload

import (
	"fmt"
	"io"
	"time"

	"weft/internal/noun"
)

func flowPage(w io.Writer, list []FlowRow) {
	if len(list) > 0 && list[0].State == StateStack {
		fmt.Fprintln(w, "no flow that is asked for is offloaded")
	} else {
		fmt.Fprintln(w, "PROTOCOL\tIN\tFROM\tTO\tAFTER NAT\tOUT\tPACKETS\tBYTES\tRATE\tAGE\tIDLE\tSTATE")
	}
	why := false
	for _, f := range list {
		why = why || f.Why != ""
		if f.State != StateStack {
			f.print(w)
		}
	}
	if !why {
		return
	}
	fmt.Fprintln(w, "\nLEFT TO THE STACK")
	fmt.Fprintln(w, "PROTOCOL\tIN\tFROM\tTO\tAFTER NAT\tLAST LOOK\tWHY\tREMEDY")
	for _, f := range list {
		if f.Why != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Protocol, f.In, f.From, f.To, noun.Dash(f.nat()), f.idle(), f.Why, f.Remedy)
		}
	}
}

func (f FlowRow) print(w io.Writer) {
	out, rate, age := f.Out, "", ""
	if f.Link != "" {
		out += " " + f.Link
	}
	if f.Rate > 0 {
		rate = measuredRate(f.Rate)
	}
	if f.Age != nil {
		age = (time.Duration(*f.Age) * time.Second).String()
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", f.Protocol, f.In, f.From, f.To, noun.Dash(f.nat()), out, f.Packets, f.Bytes,
		noun.Dash(rate), noun.Dash(age), f.idle(), f.State)
}

func (f FlowRow) nat() string {
	if f.NewFrom == f.From && f.NewTo == f.To {
		return ""
	}
	return fmt.Sprintf("%s -> %s", f.NewFrom, f.NewTo)
}

func (f FlowRow) idle() time.Duration {
	return time.Duration(f.Idle * float64(time.Second)).Round(100 * time.Millisecond)
}

// measuredRate gives three digits or so of a rate in bit/s.
func measuredRate(rate float64) string {
	unit := "kbit/s"
	rate /= 1e3
	for _, larger := range []string{"Mbit/s", "Gbit/s"} {
		if rate >= 1e3 {
			rate, unit = rate/1e3, larger
		}
	}
	digits := 0
	if unit != "kbit/s" && rate < 100 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, rate, unit)
}
