package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/api"
	"weft/internal/daemon"
)

// bindingCommands are what stateful translators have to show.
func bindingCommands() []*cobra.Command {
	pools := oldNounCommand(oldNoun{"pools", "The shared IPv4 addresses, and how full they are", `For each pool of a stateful translator, by protocol: how many ports are bound,
how many there are, and the address on which most are bound. Ports of static
bindings that nobody uses at the moment are not counted.`, showPools, tablePools})
	return []*cobra.Command{bibCommand(), sessionsCommand(), natSubscribersCommand(), pools}
}

func bibCommand() *cobra.Command {
	var f filterFlags
	c := oldNounCommand(oldNoun{"bib", "The ports that stateful translators have bound", `The binding information base (RFC 6146): which port of a shared IPv4 address
stands for which address and port of an IPv6 node. A binding lives as long as it
has sessions; those of weft.toml are always there. For icmp the port is the
identifier of echoes.`, func(_ context.Context, r *daemon.Router) (any, error) {
		filter, err := f.read()
		if err != nil {
			return nil, err
		}
		if err := f.known(r); err != nil {
			return nil, err
		}
		rows, err := api.Bindings(r.Datapath(), filter)
		return emptyNotNull(rows), err
	}, tableBindings})
	f.add(c, "--ipv4 192.0.2.1 --port 4711")
	return c
}

func sessionsCommand() *cobra.Command {
	var f filterFlags
	c := oldNounCommand(oldNoun{"nat-sessions", "The sessions of stateful translators", `Each session (RFC 6146): the IPv6 node and its far end as the node sees them,
the same as IPv4 sees them, the state of a TCP connection, and how long the
session lives on if no packet comes.`, func(_ context.Context, r *daemon.Router) (any, error) {
		filter, err := f.read()
		if err != nil {
			return nil, err
		}
		if err := f.known(r); err != nil {
			return nil, err
		}
		rows, err := api.Sessions(r.Datapath(), filter)
		return emptyNotNull(rows), err
	}, tableSessions})
	f.add(c, "--ipv6 2001:db8:1::/64 --protocol tcp")
	return c
}

func natSubscribersCommand() *cobra.Command {
	var f filterFlags
	c := oldNounCommand(oldNoun{"nat-subscribers", "What each subscriber of a stateful translator has", `For each subscriber (subscriber_prefix_len) that holds something now: how many
ports and sessions it has, and how often it was refused more by its limits.
With count_subscribers = true also what it sent and got, since it first held
something. Those with the most sessions come first.`, func(_ context.Context, r *daemon.Router) (any, error) {
		filter, err := f.read()
		if err != nil {
			return nil, err
		}
		if err := f.known(r); err != nil {
			return nil, err
		}
		rows, err := api.NATSubscribers(r.Datapath(), filter)
		return emptyNotNull(rows), err
	}, tableNATSubscribers})
	flags := c.Flags()
	flags.StringVar(&f.translator, "translator", "", "only those of [nat64.NAME]")
	flags.StringVar(&f.ipv6, "ipv6", "", "only those in this prefix, or who has this address")
	flags.IntVar(&f.limit, "limit", 0, "at most so many rows; 0 is all")
	c.Example += "\n  weft show nat-subscribers --limit 10"
	return c
}

func tableNATSubscribers(w io.Writer, rows any) {
	list := rows.([]api.NATSubscriber)
	if len(list) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "TRANSLATOR\tSUBSCRIBER\tPORTS\tSESSIONS\tREFUSED\tPACKETS 6TO4\tBYTES\tPACKETS 4TO6\tBYTES")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", s.Translator, s.Subscriber, s.Ports, s.Sessions, s.Refused, s.Packets6to4, s.Bytes6to4, s.Packets4to6, s.Bytes4to6)
	}
}

// portFlag is a port on the command line.
type portFlag uint16

func (p *portFlag) String() string { return strconv.Itoa(int(*p)) }
func (p *portFlag) Type() string   { return "port" }

func (p *portFlag) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return errors.New("a port is a number from 1 to 65535")
	}
	*p = portFlag(n)
	return nil
}

// known refuses a translator that there is not.
func (f *filterFlags) known(r *daemon.Router) error {
	if f.translator == "" {
		return nil
	}
	names, err := api.Translators(r.Datapath())
	if err == nil && !slices.Contains(names, f.translator) {
		err = fmt.Errorf("there is no translator %s; there are: %s", f.translator, strings.Join(names, ", "))
	}
	return err
}

// filterFlags pick rows.
type filterFlags struct {
	translator, protocol, ipv6, ipv4 string
	port                             uint16
	limit                            int
}

func (f *filterFlags) add(c *cobra.Command, example string) {
	f.addPicks(c)
	c.Flags().IntVar(&f.limit, "limit", 0, "at most so many rows; 0 is all")
	c.Example += "\n  weft show " + c.Name() + " " + example
}

// addPicks adds those that say which.
func (f *filterFlags) addPicks(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.translator, "translator", "", "only those of [nat64.NAME]")
	flags.StringVar(&f.protocol, "protocol", "", "only tcp, udp or icmp")
	flags.StringVar(&f.ipv6, "ipv6", "", "only nodes with this address, or in this prefix")
	flags.StringVar(&f.ipv4, "ipv4", "", "only with this IPv4 address, or in this prefix")
	flags.Var((*portFlag)(&f.port), "port", "only with this port, at any end")
}

func (f *filterFlags) read() (api.BindingFilter, error) {
	filter := api.BindingFilter{Translator: f.translator, Protocol: f.protocol, Port: f.port, Limit: f.limit}
	if f.protocol != "" && !slices.Contains([]string{"tcp", "udp", "icmp"}, f.protocol) {
		return filter, fmt.Errorf("--protocol %q is none of tcp, udp and icmp", f.protocol)
	}
	if f.limit < 0 {
		return filter, fmt.Errorf("--limit %d is negative", f.limit)
	}
	var err error
	if filter.IPv6, err = readPrefix("--ipv6", f.ipv6, true); err != nil {
		return filter, err
	}
	filter.IPv4, err = readPrefix("--ipv4", f.ipv4, false)
	return filter, err
}

// readPrefix reads a prefix or one address of a family.
func readPrefix(flag, text string, ipv6 bool) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		a, errAddr := netip.ParseAddr(text)
		if errAddr != nil {
			return p, fmt.Errorf("%s %q is neither an address nor a prefix", flag, text)
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if p.Addr().Is6() != ipv6 {
		return p, fmt.Errorf("%s %q is of the other family", flag, text)
	}
	return p.Masked(), nil
}

// readAnyPrefix is readPrefix for either family.
func readAnyPrefix(flag, text string) (netip.Prefix, error) {
	p, err := readPrefix(flag, text, false)
	if err != nil {
		if six, err6 := readPrefix(flag, text, true); err6 == nil {
			return six, nil
		}
	}
	return p, err
}

func tableBindings(w io.Writer, rows any) {
	if len(rows.([]api.Binding)) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "TRANSLATOR\tPROTOCOL\tIPV6\tIPV4\tSESSIONS\tAGE\tSTATIC")
	for _, b := range rows.([]api.Binding) {
		age := dash("")
		if b.Sessions > 0 {
			age = seconds(b.Age)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", b.Translator, b.Protocol, b.IPv6, b.IPv4, b.Sessions, age, yesNo(b.Static))
	}
}

func tableSessions(w io.Writer, rows any) {
	if len(rows.([]api.Session)) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "TRANSLATOR\tPROTOCOL\tSTATE\tIPV6\tTO\tIPV4\tTO\tEXPIRES\tAGE")
	for _, s := range rows.([]api.Session) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Translator, s.Protocol, s.State, s.IPv6, s.Remote6, s.IPv4, s.Remote4, seconds(s.Expires), seconds(s.Age))
	}
}

// seconds shows a time as people read it.
func seconds(s float64) string {
	return (time.Duration(s * float64(time.Second))).Round(time.Second).String()
}

func showPools(_ context.Context, r *daemon.Router) (any, error) {
	rows, err := api.Pools(r.Datapath())
	return emptyNotNull(rows), err
}

func tablePools(w io.Writer, rows any) {
	if len(rows.([]api.Pool)) == 0 {
		fmt.Fprintln(w, "none")
		return
	}
	fmt.Fprintln(w, "TRANSLATOR\tIPV4\tPORTS\tPROTOCOL\tBOUND\tOF\tFULLEST")
	for _, p := range rows.([]api.Pool) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s (%d)\n", p.Translator, p.IPv4, p.Ports, p.Protocol, p.Bound, p.Available, p.Fullest, p.FullestBound)
	}
}
