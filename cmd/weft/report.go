package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/config"
	"weft/internal/daemon"
	"weft/internal/features"
	"weft/internal/noun"
	"weft/internal/version"
)

// reportWait bounds each thing that a report asks, and reportMost what it keeps of one.
const (
	reportWait = 10 * time.Second
	reportMost = 4 << 20 // bytes
)

func reportCommand() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "report [FILE]",
		Short: "Collect what a bug report needs into one file",
		Long: `Write a tar.gz archive with what a bug report needs: the version, the
configuration and its check, what weft show shows, the last messages of the
daemon, and the devices, addresses, routes and nftables rules of this host.
Secrets and comments of the configuration are removed, and so are the same
words elsewhere in the archive. Files that the configuration names, of users
for example, are not read.

Logins, addresses and names of devices stay in it: look at the archive before
you give it to others. Without FILE the configuration is /etc/weft/weft.toml.`,
		Example: "  weft report\n  weft report weft.toml --output report.tar.gz",
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needRoot("weft report"); err != nil {
				return err
			}
			if to == "" {
				to = "weft-report-" + time.Now().Format("20060102-150405") + ".tar.gz"
			}
			r := collect(cmd.Context(), fileOf(args), func(what string) { fmt.Fprintln(os.Stderr, "collecting "+what) })
			out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			if err := errors.Join(r.write(out), out.Close()); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d files. Look at it before you give it to others: logins and addresses are in it.\n", to, len(r.files))
			return nil
		},
	}
	c.Flags().StringVarP(&to, "output", "o", "", "the archive to write (default: weft-report-TIME.tar.gz here)")
	return c
}

// report is an archive's files, and the words that must not be in them.
type report struct {
	files   []reportFile
	secrets []string
}

type reportFile struct {
	name string
	text []byte
}

// collect asks for everything; what cannot be had becomes a file that says why.
func collect(ctx context.Context, file string, progress func(string)) *report {
	r := &report{}
	progress("the configuration and its check")
	text, err := os.ReadFile(file)
	clean, secrets := config.Redact(text)
	r.secrets = secrets
	r.add("weft.toml", clean, err)
	_, problems := daemon.Parse(file, text)
	var said strings.Builder
	printProblems(&said, problems)
	r.add("check.txt", []byte(said.String()), nil)
	about, err := json.MarshalIndent(map[string]string{"version": version.String(), "commit": version.Commit(), "go": runtime.Version(), "arch": runtime.GOARCH}, "", "  ")
	r.add("version.json", about, err)

	progress("what weft show shows")
	for n := range noun.All(features.Nouns()) {
		if n.Hidden || slices.ContainsFunc(wordsOf(n), func(w word) bool { return w.needed }) {
			continue
		}
		var out bytes.Buffer
		inner, cancel := context.WithTimeout(ctx, reportWait)
		err := (&looker{noun: n, json: true, out: &out}).once(inner)
		cancel()
		if errors.Is(err, errReported) {
			err = nil // health shows a fault: the rows say it
		}
		r.add("show/"+n.Name+".json", out.Bytes(), err)
	}

	progress("the host")
	for name, argv := range hostCommands() {
		inner, cancel := context.WithTimeout(ctx, reportWait)
		out, err := exec.CommandContext(inner, argv[0], argv[1:]...).CombinedOutput()
		cancel()
		r.add("host/"+name, out, err)
	}
	for _, f := range []string{"/etc/os-release", "/proc/version", "/proc/cpuinfo", "/proc/meminfo", "/proc/modules"} {
		text, err := os.ReadFile(f)
		r.add("host/"+path.Base(f), text, err)
	}
	slices.SortFunc(r.files, func(a, b reportFile) int { return strings.Compare(a.name, b.name) })
	return r
}

// hostCommands are what the host is asked by; none of them changes it.
func hostCommands() map[string][]string {
	return map[string][]string{
		"link.json": {"ip", "-d", "-s", "-j", "link"}, "addr.json": {"ip", "-j", "addr"}, "neigh.json": {"ip", "-j", "neigh"},
		"route4.json": {"ip", "-4", "-j", "route", "show", "table", "all"}, "route6.json": {"ip", "-6", "-j", "route", "show", "table", "all"},
		"rule4.json": {"ip", "-4", "-j", "rule"}, "rule6.json": {"ip", "-6", "-j", "rule"},
		"bridge-vlan.json": {"bridge", "-j", "vlan"}, "nftables.txt": {"nft", "list", "ruleset"},
		"log.txt":     {"journalctl", "--no-pager", "--unit", "weft", "--lines", "2000"},
		"service.txt": {"systemctl", "--no-pager", "status", "weft"},
		"sysctl.txt":  {"sysctl", "-a", "--pattern", `^net\.ipv[46]\.(conf|ip_forward|neigh\.default)|^kernel\.(unprivileged_bpf|bpf)`},
		"bpf.txt":     {"bpftool", "net"},
	}
}

// add adds a file, or one that says why there is none.
func (r *report) add(name string, text []byte, err error) {
	if err != nil {
		text = append(bytes.Clone(text), fmt.Sprintf("\n(%v)\n", err)...)
	}
	if len(text) > reportMost {
		text = append(bytes.Clone(text[len(text)-reportMost:]), "\n(only the last part)\n"...)
	}
	r.files = append(r.files, reportFile{name, text})
}

// cookies of pseudowires stand in other notations than in weft.toml.
var cookies = regexp.MustCompile(`cookies? [0-9a-f]+( [0-9a-f]+)?`)

// scrub removes the secrets of weft.toml from another text. Shorter ones than four
// characters are too common for that.
func (r *report) scrub(text []byte) []byte {
	for _, s := range r.secrets {
		if len(s) >= 4 {
			text = bytes.ReplaceAll(text, []byte(s), []byte("removed"))
		}
	}
	return cookies.ReplaceAll(text, []byte("cookies removed"))
}

// write writes the archive.
func (r *report) write(to interface{ Write([]byte) (int, error) }) error {
	zip := gzip.NewWriter(to)
	out := tar.NewWriter(zip)
	for _, f := range r.files {
		text := r.scrub(f.text)
		head := tar.Header{Name: path.Join("weft-report", f.name), Mode: 0o600, Size: int64(len(text)), ModTime: time.Now(), Typeflag: tar.TypeReg}
		if err := out.WriteHeader(&head); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), zip.Close())
}
