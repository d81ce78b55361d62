package probe

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe/same"
)

// probeSame compares two translators that know the members, the server and the
// prefix of the scenario jool-cases.
func sameCommand() *cobra.Command {
	c := &cobra.Command{Use: "same ROUTER ROUTER", Short: "Send the same packets through two translators; a ROUTER is NAME,SIX,FOUR,SIXMAC,FOURMAC", Args: cobra.ExactArgs(2)}
	c.RunE = func(c *cobra.Command, args []string) error {
		var routers [2]same.Router
		for i, a := range args {
			r, err := readRouter(a)
			if err != nil {
				return err
			}
			routers[i] = r
		}
		out := c.OutOrStdout()
		cases, alike, reasons, faults := 0, 0, 0, 0
		err := same.Run(c.Context(), routers, same.Cases(scenarioEnds()), func(o same.Outcome) {
			cases++
			switch {
			case o.Same && len(o.Left[0]) == 0:
				alike++
				fmt.Fprintf(out, "same     %s: nothing leaves\n", o.Name)
			case o.Same:
				alike++
				fmt.Fprintf(out, "same     %s\n", o.Name)
			case o.Why != "":
				reasons++
				fmt.Fprintf(out, "differs  %s: %s\n", o.Name, o.Why)
			default:
				faults++
				fmt.Fprintf(out, "DIFFERS  %s\n", o.Name)
				for i, r := range routers {
					fmt.Fprintf(out, "         %s: %s\n", r.Name, strings.Join(o.Left[i], ", "))
				}
			}
		})
		fmt.Fprintf(out, "%d cases: %d the same, %d differ for a reason, %d without one\n", cases, alike, reasons, faults)
		return err
	}
	return c
}

func readRouter(text string) (r same.Router, err error) {
	words := strings.Split(text, ",")
	if len(words) != 5 {
		return r, fmt.Errorf("%q is not NAME,SIX,FOUR,SIXMAC,FOURMAC", text)
	}
	r.Name, r.Six, r.Four = words[0], words[1], words[2]
	if r.SixMAC, err = net.ParseMAC(words[3]); err != nil {
		return r, err
	}
	r.FourMAC, err = net.ParseMAC(words[4])
	return r, err
}

func scenarioEnds() same.Ends {
	return same.Ends{
		Member6: netip.MustParseAddr("2001:db8:1::2"), Member4: netip.MustParseAddr("192.0.2.2"),
		Second6: netip.MustParseAddr("2001:db8:1::3"), Second4: netip.MustParseAddr("192.0.2.3"),
		Server6: netip.MustParseAddr("64:ff9b:1::198.51.100.9"), Server4: netip.MustParseAddr("198.51.100.9"),
		Outsider6: netip.MustParseAddr("2001:db8:1::7:7"),
		Prefix:    netip.MustParsePrefix("64:ff9b:1::/96"),
	}
}
