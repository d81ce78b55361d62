package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/feature/lns"
	"weft/internal/features"
	"weft/internal/importer"
	"weft/internal/state"
)

func importCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "Convert another program's configuration to weft.toml",
		Long: `Read the configuration of another program and print a weft.toml that does the
same. Comments in it list the differences and what weft does not support, each
with the line that caused it and a remedy; they are also printed as warnings.
Nothing is changed. Review the result, and run weft check.

weft import weft reads a weft.toml of an earlier version.`,
		Example: "  weft import jool jool.json > weft.toml\n  weft import tayga /etc/tayga.conf > weft.toml\n  weft import openwrt /etc/config > weft.toml",
	}
	c.AddCommand(
		importOne("jool", "a configuration of Jool", `Read the JSON that jool file handle and jool_siit file handle read: pool6, eamt
and the global settings, pool4 and bib. With pool4, bib or pool6 alone it
becomes a stateful translator, with mappings a stateless one; --mode decides
otherwise.`,
			"  weft import jool jool.json --lan eth1 --wan eth0 > weft.toml", importer.Jool),
		importLNS(),
		importTayga(),
		importOpenWrt(),
		importEarlier(),
	)
	return choice(c, "program")
}

func importTayga() *cobra.Command {
	var maps string
	c := importOne("tayga", "a tayga.conf", `Read a tayga.conf: prefix, map, map-file and the rest. weft assigns no
addresses to nodes: a file with a dynamic-pool and no map becomes a stateful
translator, whose nodes share the pool's addresses by ports; --mode decides
otherwise.`,
		"  weft import tayga /etc/tayga.conf --lan eth1 --wan eth0 > weft.toml\n  weft import tayga tayga.conf --mode stateful > weft.toml",
		func(text []byte, o importer.Options) (string, []state.Problem) {
			file := maps
			if named := importer.TaygaMapFile(text); file == "" && named != "" {
				file = named
				if !filepath.IsAbs(named) {
					file = filepath.Join(filepath.Dir(o.File), named)
				}
			}
			var err error
			if file != "" {
				if o.Map, err = os.ReadFile(file); err != nil && (maps != "" || !errors.Is(err, fs.ErrNotExist)) {
					return "", []state.Problem{{
						Severity: state.Error, Pos: state.Position{File: file, Line: 1, Column: 1}, Path: "map-file",
						What: "cannot be read: " + err.Error(), Remedy: "name another file with --map-file",
					}}
				}
			}
			return importer.Tayga(text, o)
		})
	c.Flags().StringVar(&maps, "map-file", "", "file with more mappings (default: the one that FILE names, beside it)")
	return c
}

func importLNS() *cobra.Command {
	var pool, listen string
	c := importOne("l2tpns", "a startup-config of l2tpns", `Read a startup-config of l2tpns and the ip_pool beside it: tunnel secret, RADIUS
servers, pools, name servers, limits. Clusters, BGP and access lists are not
carried over. Add the LACs' addresses to the result, and prefixes for IPv6.`,
		"  weft import l2tpns /etc/l2tpns/startup-config --wan eth0 > weft.toml\n  weft import l2tpns startup-config --ip-pool pools --listen 192.0.2.1 > weft.toml",
		func(text []byte, o importer.Options) (string, []state.Problem) {
			o.Listen, o.PoolFile = listen, pool
			if pool == "" {
				o.PoolFile = filepath.Join(filepath.Dir(o.File), "ip_pool")
			}
			var err error
			if o.Pool, err = os.ReadFile(o.PoolFile); err != nil && (pool != "" || !errors.Is(err, fs.ErrNotExist)) {
				return "", []state.Problem{{
					Severity: state.Error, Pos: state.Position{File: o.PoolFile, Line: 1, Column: 1}, Path: "ip_pool",
					What: "cannot be read: " + err.Error(), Remedy: "name another file with --ip-pool",
				}}
			}
			return importer.L2TPNS(text, o)
		})
	c.Flags().StringVar(&pool, "ip-pool", "", "file with the pools of addresses (default: ip_pool beside FILE)")
	c.Flags().StringVar(&listen, "listen", "", "addresses at which LACs reach this router, if FILE names none")
	c.Flags().Lookup("wan").Usage = "device towards the LACs"
	for _, none := range []string{"lan", "mode"} {
		if err := c.Flags().MarkHidden(none); err != nil {
			panic(err)
		}
	}
	return c
}

// importEarlier is weft import weft.
func importEarlier() *cobra.Command {
	return &cobra.Command{
		Use:   "weft FILE",
		Short: "Rename sections and keys of an earlier weft.toml",
		Long: `Print a weft.toml, or a users_file, of an earlier version of weft with the
present names of its sections and keys. Comments, layout and values stay as they
are. Each name that changes is printed as a warning.`,
		Example: "  weft import weft /etc/weft/weft.toml > weft.toml",
		Args:    oneArgument("one file", "the weft.toml to convert"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the file to import: %w", err)
			}
			sections := append(features.Sections(), lns.UsersSection())
			result, remarks, ok := config.Modernise(args[0], text, sections)
			if !ok {
				_, problems := daemon.Parse(args[0], text)
				printProblems(os.Stderr, problems)
				return errReported
			}
			printProblems(os.Stderr, remarks)
			if _, err := cmd.OutOrStdout().Write(result); err != nil {
				return err
			}
			_, problems := config.Load("the result", result, sections)
			printProblems(os.Stderr, problems)
			if state.HasErrors(problems) {
				return errReported
			}
			return nil
		},
	}
}

func importOne(name, what, long, example string, read func([]byte, importer.Options) (string, []state.Problem)) *cobra.Command {
	o := importer.Options{}
	c := &cobra.Command{
		Use:     name + " FILE",
		Short:   "Convert " + what + " to weft.toml",
		Long:    long,
		Example: example,
		Args:    oneArgument("one file", "the one that "+name+" reads"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the file to import: %w", err)
			}
			o.File = args[0]
			if o.Mode == "siit" { // RFC 7915's other name
				o.Mode = "stateless"
			}
			if o.Mode != "" && !slices.Contains(importer.Modes, o.Mode) {
				return fmt.Errorf("--mode %s: the modes are %s", o.Mode, strings.Join(importer.Modes, ", "))
			}
			result, problems := read(text, o)
			printProblems(os.Stderr, problems)
			if state.HasErrors(problems) {
				return errReported
			}
			if _, err := cmd.OutOrStdout().Write([]byte(result)); err != nil {
				return err
			}
			_, problems = daemon.Parse("the result", []byte(result))
			printProblems(os.Stderr, problems)
			if state.HasErrors(problems) {
				return errReported
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.LAN, "lan", "lan", "device on the IPv6 side")
	c.Flags().StringVar(&o.Mode, "mode", "", "translator that the file describes: stateless, stateful or clat (default: what the file suggests)")
	c.Flags().StringVar(&o.WAN, "wan", "wan", "device on the IPv4 side")
	return c
}
