package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/daemon"
	"weft/internal/importer/openwrt"
	"weft/internal/importer/uci"
	"weft/internal/state"
)

func importOpenWrt() *cobra.Command {
	var devices []string
	c := &cobra.Command{
		Use:   "openwrt DIR",
		Short: "Convert the /etc/config of an OpenWrt router to weft.toml",
		Long: `Read the files of /etc/config: network with its bridges, VLANs and tunnels,
dhcp, firewall, wireless, system, jool and the rest. DIR is that directory, the
root of an unpacked backup, or a file with what uci export prints.

Each line gets a verdict on standard error, lines of one kind together: yes,
with its place in weft.toml; differs, weft does it otherwise; no, weft does not
do it, with who does. The last two are comments of the result too. A file that
cannot be read is one error, with its line. Nothing is changed. Secrets are only
in the result, never in the verdicts.

The names of devices stay as they are in OpenWrt, unless --device says otherwise.`,
		Example: "  weft import openwrt /etc/config > weft.toml\n  weft import openwrt backup --device eth0=enp1s0 --device eth1=enp2s0 > weft.toml",
		Args:    oneArgument("one directory", "that with the files network, dhcp and firewall"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := openwrt.Options{Devices: map[string]string{}}
			for _, pair := range devices {
				old, name, ok := strings.Cut(pair, "=")
				if !ok || old == "" || name == "" {
					return fmt.Errorf("--device %s: write it as OLD=NEW", pair)
				}
				o.Devices[old] = name
			}
			sources, err := readOpenWrt(args[0], &o)
			if err != nil {
				return err
			}
			return printOpenWrt(cmd.OutOrStdout(), cmd.ErrOrStderr(), openwrt.Import(sources, o))
		},
	}
	c.Flags().StringArrayVar(&devices, "device", nil, "a device's name on the new machine, as OLD=NEW; may be repeated")
	return c
}

// printOpenWrt prints weft.toml to out, and the verdicts and problems to said.
func printOpenWrt(out, said io.Writer, result openwrt.Result) error {
	printProblems(said, result.Problems)
	if state.HasErrors(result.Problems) {
		return errReported
	}
	count := map[openwrt.Verdict]int{}
	var b strings.Builder
	all := 0
	for _, l := range result.Lines {
		fmt.Fprintln(&b, l)
		count[l.Verdict] += l.Count
		all += l.Count
	}
	fmt.Fprintf(&b, "%d lines: %d yes, %d differ, %d no\n", all, count[openwrt.Yes], count[openwrt.Differs], count[openwrt.No])
	if _, err := io.WriteString(said, b.String()); err != nil {
		return err
	}
	if _, err := io.WriteString(out, result.TOML); err != nil {
		return err
	}
	_, problems := daemon.Parse("the result", []byte(result.TOML))
	printProblems(said, problems)
	if state.HasErrors(problems) {
		return errReported
	}
	return nil
}

// readOpenWrt reads the packages of a directory, or of one file of several.
func readOpenWrt(name string, o *openwrt.Options) ([]openwrt.Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the directory to import: %w", err)
	}
	if !info.IsDir() {
		s, err := openWrtFile(name)
		return []openwrt.Source{s}, err
	}
	for _, below := range []string{"etc/config", "config"} {
		if d, err := os.Stat(filepath.Join(name, below)); err == nil && d.IsDir() {
			name = filepath.Join(name, below)
			break
		}
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("read the directory to import: %w", err)
	}
	var list []openwrt.Source
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.ContainsAny(e.Name(), ".~") {
			continue // uci reads no others, such as network.bak
		}
		s, err := openWrtFile(filepath.Join(name, e.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, readJool(filepath.Join(name, "../jool"), o)
}

// openWrtFile reads a file, and no more of it than uci.Parse takes.
func openWrtFile(name string) (openwrt.Source, error) {
	s := openwrt.Source{File: name, Package: filepath.Base(name)}
	f, err := os.Open(name)
	if err != nil {
		return s, fmt.Errorf("read the file to import: %w", err)
	}
	defer func() { _ = f.Close() }()
	if s.Text, err = io.ReadAll(io.LimitReader(f, uci.MaxSize+1)); err != nil {
		return s, fmt.Errorf("read the file to import: %w", err)
	}
	return s, nil
}

// readJool reads the files that /etc/config/jool enables, if they are there.
func readJool(dir string, o *openwrt.Options) error {
	o.Jool = map[string]openwrt.Source{}
	for _, instance := range []string{"nat64", "siit"} {
		s, err := openWrtFile(filepath.Join(dir, "jool-"+instance+".conf.json"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			o.Jool[instance] = s
		}
	}
	return nil
}
