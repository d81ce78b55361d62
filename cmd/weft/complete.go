package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/daemon"
	"weft/internal/importer"
	"weft/internal/lab"
	"weft/internal/noun"
	"weft/internal/simulate/scenario"
	"weft/schedule"
)

// addCompletion tells the shell what the words of commands and the values of flags may be.
// What cannot be read, for want of rights or of a daemon, offers nothing.
func addCompletion(root *cobra.Command) {
	scenarios := func(*cobra.Command) []string {
		var names []string
		sources, _ := lab.Embedded()
		for _, s := range sources {
			names = append(names, s.Name)
		}
		return names
	}
	simulations := func(*cobra.Command) []string { names, _ := scenario.Names(); return names }
	running := func(*cobra.Command) []string {
		var names []string
		labs, _ := lab.Running()
		for _, l := range labs {
			names = append(names, l.Name)
		}
		return names
	}
	logins := func(c *cobra.Command) []string {
		return complete(c.Context(), noun.Arg{Column: "subscribers LOGIN"})
	}
	interfaces := func(c *cobra.Command) []string {
		file, _ := c.Flags().GetString("config")
		text, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		f, _ := daemon.Parse(file, text)
		if f == nil {
			return nil
		}
		return f.Names("interface")
	}
	fixed := func(names ...string) func(*cobra.Command) []string {
		return func(*cobra.Command) []string { return names }
	}
	words := map[string]func(*cobra.Command) []string{
		"weft lab up": scenarios, "weft lab run": scenarios, "weft lab down": running, "weft lab shell": running,
		"weft sim run": simulations, "weft sim compare": simulations, "weft sim sweep": simulations, "weft sim watch": simulations,
		"weft kick": logins, "weft capture": logins,
	}
	values := map[string]map[string]func(*cobra.Command) []string{
		"weft trace":       {"in": interfaces, "via": fixed("xdp", "tc", "slow")},
		"weft import jool": {"mode": fixed(importer.Modes...)}, "weft import tayga": {"mode": fixed(importer.Modes...)},
		"weft sim compare": {"schedulers": schedulers}, "weft sim sweep": {"schedulers": schedulers}, "weft sim watch": {"schedulers": schedulers},
	}
	every(root, func(c *cobra.Command) {
		if list := words[c.CommandPath()]; list != nil {
			c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return list(c), cobra.ShellCompDirectiveDefault // files, too
			}
		}
		for flag, list := range values[c.CommandPath()] {
			err := c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return afterComma(list(c), begun), cobra.ShellCompDirectiveNoFileComp
			})
			if err != nil {
				panic(err) // no such flag: a mistake in this function
			}
		}
	})
}

// schedulers are all of the simulator: an order of packets, a choice of paths, or both.
func schedulers(*cobra.Command) []string {
	var names []string
	for _, r := range schedule.Routers() {
		names = append(names, r)
		for _, o := range schedule.Orders() {
			names = append(names, o+"+"+r)
		}
	}
	return names
}

// afterComma offers further values of a list that is separated by commas.
func afterComma(names []string, begun string) []string {
	at := strings.LastIndexByte(begun, ',')
	if at < 0 {
		return names
	}
	var list []string
	for _, n := range names {
		list = append(list, begun[:at+1]+n)
	}
	return list
}

// every calls f for each command that users see, cobra's own left out.
func every(c *cobra.Command, f func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		every(sub, f)
	}
}
