package configtest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weft/internal/config"
	"weft/internal/plan"
	"weft/internal/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const factMark = "#@ "

// Plan is a feature's plan: pure, from a configuration and facts.
type Plan func(*config.File, state.Facts) state.Part

// Golden plans every *.toml of dir and compares the objects that the planner makes
// of the feature's part alone, one a line in order, and the problems, with the .plan
// beside it. -update rewrites those. Facts are comments in the toml:
//
//	#@ link eth1 2 veth mtu 1500 xdp xdp-target gro-list address 2001:db8::1/64
//	#@ translator main 3
//	#@ prefix64 main 64:ff9b::/96 lan wan
//	#@ nameserver lan
//	#@ switch mtk
//	#@ plat home 64:ff9b::/96
//	#@ uplink fibre down4
//	#@ sysctl net/ipv4/conf/lan/proxy_arp 1
//	#@ way 192.0.2.1 192.0.2.2 1500 1300
//	#@ route 0.0.0.0/0 192.0.2.254 eth1 100
//	#@ advertises eth1
//
// A link has name, index and kind (or - for a physical one), and may have "lower",
// "vlan", "qinq", "master", "peer", "vrf-table", "filtering", "vlan-aware",
// "limits-mac", "accept-ra", "learnt-ra" and "no-mac", which makes it a device
// without Ethernet frames. A way has both ends, the MTU of the device that leads
// there, and the path MTU that routers have reported, or 0. Golden returns the
// number of files.
func Golden(t *testing.T, dir string, sections []config.Section, plans Plan, audits ...plan.Audit) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			f, problems := config.Load("", text, sections)
			if state.HasErrors(problems) {
				t.Fatal(problems)
			}
			facts, err := readFacts(string(text))
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".toml") + ".plan"
			got := planText(plan.Desire([]state.Part{plans(f, facts)}, facts, audits...))
			if strings.Contains(got, "build \n") {
				t.Errorf("plans a program that is none of bpf/*.bpf.c\n%s", got)
			}
			if again := planText(plan.Desire([]state.Part{plans(f, facts)}, facts, audits...)); again != got {
				t.Errorf("the second time it plans\n%s\nafter\n%s", again, got)
			}
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("plans\n%s\nwant, by %s,\n%s", got, golden, want)
			}
		})
	}
	return len(files)
}

func planText(desired state.Desired, problems []state.Problem) string {
	var b strings.Builder
	for _, o := range desired {
		fmt.Fprintln(&b, o)
	}
	for _, p := range problems {
		fmt.Fprintln(&b, "problem", strings.TrimPrefix(p.String(), ":"))
	}
	return b.String()
}

// builds assigns each program of bpf/ a build: its name, or a short one.
func builds() (map[string]string, error) {
	short := map[string]string{"ingress_tc": "tc", "ingress_xdp": "xdp", "translator_egress": "out", "translator_ingress": "in"}
	const ending = ".bpf.c"
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "bpf/*"+ending))
	if err != nil || len(files) < len(short) {
		return nil, fmt.Errorf("find the programs of bpf/: %d, %v", len(files), err)
	}
	all := map[string]string{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ending)
		all[name] = cmp.Or(short[name], name)
	}
	return all, nil
}

// moduleRoot is the folder of go.mod at or above the working folder of the
// test. The path in the program itself is none where it was built with -trimpath.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod at or above the working folder")
		}
	}
	return "", err
}

// readFacts reads the facts in a toml's comments.
func readFacts(text string) (state.Facts, error) {
	programs, err := builds()
	if err != nil {
		return state.Facts{}, err
	}
	facts := state.Facts{Translators: map[string]int{}, Builds: programs}
	for line := range strings.SplitSeq(text, "\n") {
		words, ok := strings.CutPrefix(line, factMark)
		if !ok {
			continue
		}
		if err := readFact(&facts, strings.Fields(words)); err != nil {
			return facts, fmt.Errorf("%q: %w", line, err)
		}
	}
	return facts, nil
}

func readFact(facts *state.Facts, words []string) error {
	switch {
	case len(words) == 2 && words[0] == "nameserver":
		facts.NameServer = append(facts.NameServer, words[1])
		return nil
	case len(words) == 2 && words[0] == "switch":
		return readSwitch(facts, words[1])
	case words[0] == "advertises" && len(words) == 2:
		facts.Advertises = append(facts.Advertises, words[1])
		return nil
	case words[0] == "uplink" && len(words) == 3:
		facts.Uplinks = map[string]state.Uplink{words[1]: {Down4: words[2] == "down4", Down6: words[2] == "down6"}}
		return nil
	case len(words) < 3:
		return fmt.Errorf("is no fact")
	case words[0] == "route" && len(words) == 5:
		return readRoute(facts, words[1:])
	case words[0] == "sysctl":
		if facts.Sysctls == nil {
			facts.Sysctls = map[string]string{}
		}
		facts.Sysctls[words[1]] = words[2]
		return nil
	case words[0] == "way" && len(words) == 5:
		return readWay(facts, words[1:])
	case words[0] == "plat":
		p, err := netip.ParsePrefix(words[2])
		if facts.PLAT == nil {
			facts.PLAT = map[string]netip.Prefix{}
		}
		facts.PLAT[words[1]] = p
		return err
	case words[0] == "prefix64":
		p, err := netip.ParsePrefix(words[2])
		facts.Prefixes64 = append(facts.Prefixes64, state.Prefix64{Translator: words[1], Prefix: p, Interfaces: words[3:]})
		return err
	}
	number, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	switch {
	case words[0] == "translator":
		facts.Translators[words[1]] = number
		return nil
	case words[0] != "link" || len(words) < 4:
		return fmt.Errorf("is no fact")
	}
	l := state.LinkFact{Name: words[1], Index: number, MTU: 1500, Up: true, MAC: [6]byte{2, 0, 0, 0, 0, byte(number)}}
	if words[3] != "-" {
		l.Kind = words[3]
	}
	if err := readLink(&l, words[4:]); err != nil {
		return err
	}
	facts.Links = append(facts.Links, l)
	return nil
}

func readSwitch(facts *state.Facts, name string) error {
	for f := state.SwitchNone; f <= state.SwitchGSWIP; f++ {
		if f.String() == name {
			facts.Switch = f
			return nil
		}
	}
	return fmt.Errorf("no switch has tags %q", name)
}

func readWay(facts *state.Facts, words []string) error {
	local, err1 := netip.ParseAddr(words[0])
	remote, err2 := netip.ParseAddr(words[1])
	mtu, err3 := strconv.Atoi(words[2])
	notified, err4 := strconv.Atoi(words[3])
	if facts.Paths == nil {
		facts.Paths = map[state.Endpoints]state.PseudowirePath{}
	}
	facts.Paths[state.Endpoints{Local: local, Remote: remote}] = state.PseudowirePath{MTU: mtu, PathMTU: notified}
	return errors.Join(err1, err2, err3, err4)
}

// readRoute reads prefix, gateway (- for none), device and metric.
func readRoute(facts *state.Facts, words []string) (err error) {
	r := state.RouteFact{Device: words[2], Protocol: 3} // RTPROT_BOOT
	if r.Prefix, err = netip.ParsePrefix(words[0]); err != nil {
		return err
	}
	if words[1] != "-" {
		if r.Gateway, err = netip.ParseAddr(words[1]); err != nil {
			return err
		}
	}
	if r.Metric, err = strconv.Atoi(words[3]); err != nil {
		return err
	}
	facts.Routes = append(facts.Routes, r)
	return nil
}

func readLink(l *state.LinkFact, words []string) error {
	for len(words) > 0 {
		switch words[0] {
		case "xdp":
			l.XDP = true
		case "xdp-target":
			l.XDPTarget = true
		case "gro":
			l.GRO = true
		case "gro-list":
			l.GROList = true
		case "filtering":
			l.Filtering = true
		case "vlan-aware":
			l.VLANAware = true
		case "limits-mac":
			l.LimitsMAC = true
		case "no-mac":
			l.MAC, l.Encap = [6]byte{}, "none"
		case "accept-ra":
			l.AcceptRA = true
		case "learnt-ra":
			l.LearntRA = true
		case "mtu", "address", "lower", "vlan", "qinq", "master", "peer", "vrf-table", "port", "tagging", "manager":
			if len(words) < 2 {
				return fmt.Errorf("%s of what?", words[0])
			}
			if err := readValue(l, words[0], words[1]); err != nil {
				return err
			}
			words = words[1:]
		default:
			return fmt.Errorf("no link has %q", words[0])
		}
		words = words[1:]
	}
	return nil
}

func readValue(l *state.LinkFact, what, value string) (err error) {
	switch what {
	case "mtu":
		l.MTU, err = strconv.Atoi(value)
		return err
	case "lower":
		l.Lower = value
		return nil
	case "master":
		l.Master = value
		return nil
	case "peer":
		l.Peer = value
		return nil
	case "manager":
		l.Manager = value
		return nil
	case "tagging":
		l.Tagging = value
		return nil
	case "port":
		n, err := strconv.Atoi(value)
		l.Port = n + 1
		return err
	case "vlan", "qinq", "vrf-table":
		n, err := strconv.ParseUint(value, 10, 32)
		switch what {
		case "vlan":
			l.Tag = state.VLANTag{Proto: state.VLANCustomer, ID: uint16(n)}
		case "qinq":
			l.Tag = state.VLANTag{Proto: state.VLANService, ID: uint16(n)}
		default:
			l.VRFTable = uint32(n)
		}
		return err
	}
	p, err := netip.ParsePrefix(value)
	l.Addresses = append(l.Addresses, p)
	return err
}
