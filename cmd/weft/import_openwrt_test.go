package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/importer/openwrt"
	"weft/internal/state"
)

// run runs a command of weft, and returns what it prints.
func runImport(args ...string) (out, said string, err error) {
	root := rootCommand()
	var o, s bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&o)
	root.SetErr(&s)
	err = root.Execute()
	return o.String(), s.String(), err
}

// The guide's files give the guide's weft.toml, by the guide's command, and so they do by
// what uci export prints.
func TestTheGuideFromOpenWrtIsRight(t *testing.T) {
	var guide page
	for _, p := range pages(t) {
		if p.name == "docs/guides/from-openwrt.md" {
			guide = p
		}
	}
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("backup/etc/config", 0o755); err != nil {
		t.Fatal(err)
	}
	var command []string
	var toml, lines string
	export := ""
	for _, b := range guide.blocks() {
		for name, begins := range map[string]string{"network": "config globals", "dhcp": "config dhcp"} {
			if strings.HasPrefix(b.text, begins) {
				export += "package " + name + "\n" + b.text
				if err := os.WriteFile(filepath.Join("backup/etc/config", name), []byte(b.text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		switch {
		case b.info == "toml":
			toml = b.text
		case strings.HasPrefix(b.text, "weft import openwrt"):
			words, _, _ := strings.Cut(b.text, ">")
			command = strings.Fields(words)[1:]
		case strings.HasPrefix(b.text, "backup/etc/config/"):
			lines = b.text
		}
	}
	if toml == "" || lines == "" || len(command) == 0 || !strings.Contains(export, "package dhcp") {
		t.Fatal("the guide has no files, command or result")
	}
	if err := os.WriteFile("router.uci", []byte(export), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"backup", "backup/etc/config", "router.uci"} {
		command[2] = dir
		out, said, err := runImport(command...)
		if err != nil {
			t.Fatal(err, said)
		}
		if at := strings.Index(out, "[interface"); at < 0 || out[at:] != toml {
			t.Errorf("%s gives\n%s\nwant\n%s", dir, out, toml)
		}
		for line := range strings.Lines(lines) {
			if dir != "router.uci" && !strings.Contains(said, line) {
				t.Errorf("%s: no line %s in\n%s", dir, line, said)
			}
		}
	}
}

func TestImportOpenWrtAnswersMistakes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "network"), []byte("config interface 'lan'\n\toptoin proto 'static'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{dir}, `network:2:1: error: "optoin" begins no line of UCI`},
		{[]string{t.TempDir()}, "there is no package network"},
		{[]string{dir + "/none"}, "no such file"},
		{[]string{dir, "--device", "eth0"}, "write it as OLD=NEW"},
		{nil, "takes one directory"},
	} {
		_, said, err := runImport(append([]string{"import", "openwrt"}, c.args...)...)
		if err == nil || !strings.Contains(said+err.Error(), c.says) {
			t.Errorf("%v: %v %s, want %q", c.args, err, said, c.says)
		}
	}
}

// many is a router with n bridges.
func many(n int) []openwrt.Source {
	var network, firewall strings.Builder
	for i := range n {
		fmt.Fprintf(&network, "config device\n\toption name 'br%d'\n\toption type 'bridge'\n\tlist ports 'eth%d'\n\n", i, i)
		fmt.Fprintf(&network, "config interface 'lan%d'\n\toption device 'br%d'\n\toption proto 'static'\n\toption ipaddr '10.%d.%d.1/24'\n\n", i, i, i/256, i%256)
		fmt.Fprintf(&firewall, "config zone\n\toption name 'z%d'\n\tlist network 'lan%d'\n\n", i, i)
	}
	return []openwrt.Source{{File: "network", Package: "network", Text: []byte(network.String())}, {File: "firewall", Package: "firewall", Text: []byte(firewall.String())}}
}

// A router with thousands of bridges is imported whole.
func TestAnOpenWrtRouterWithManyBridgesIsImported(t *testing.T) {
	const n = 2000
	result := openwrt.Import(many(n), openwrt.Options{})
	f, problems := config.Load("weft.toml", []byte(result.TOML), features.Sections())
	if state.HasErrors(problems) || len(result.Problems) > 0 {
		t.Fatal(result.Problems, problems[0])
	}
	if b, i := len(f.Names("bridge")), len(f.Names("interface")); b != n || i != n {
		t.Errorf("%d bridges, %d interfaces, want %d of each", b, i, n)
	}
}

func BenchmarkImportOpenWrt(b *testing.B) {
	for _, n := range []int{500, 1000, 2000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sources := many(n)
			for b.Loop() {
				openwrt.Import(sources, openwrt.Options{})
			}
		})
	}
}
