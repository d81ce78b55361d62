package dscprun

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"weft/internal/config"
	"weft/internal/datapath/datapathtest"
	"weft/internal/datapath/dscptable"
	"weft/internal/datapath/fibtable"
	"weft/internal/datapath/ingresstable"
	"weft/internal/datapath/nat64table"
	"weft/internal/feature/dscp"
	"weft/internal/noun"
	"weft/internal/runner"
	"weft/internal/state"
)

// marked is a packet with a DSCP.
func marked(from, to string, dscp byte) []byte {
	b := datapathtest.Udp(from, to, 9).Bytes()
	if datapathtest.IsIPv4(b) {
		b[1] = dscp << 2
		return datapathtest.Healed(b)
	}
	b[0], b[1] = b[0]&0xf0|dscp>>2, b[1]&0x3f|dscp<<6
	return b
}

func TestLocalCodePointsAreDroppedAndCounted(t *testing.T) {
	r := datapathtest.NewRouter(t, ingresstable.Part(), nat64table.Part(), fibtable.Part())
	r.SetPorts(func(p *state.IngressEntry) {
		p.Translators, p.Roles = 0, state.Roles(0).With(state.RoleRouted|state.RoleDscp, p.Device == "lan")
	})
	for _, build := range datapathtest.Builds {
		for _, c := range []struct {
			name, from, to string
			dscp           byte
			want           state.Outcome
		}{
			{"a packet without a mark is routed", "203.0.113.9", "198.51.100.7", 0, state.ForwardRouted},
			{"expedited forwarding is routed", "203.0.113.9", "198.51.100.7", 46, state.ForwardRouted},
			{"a local code point of IPv4 is dropped", "203.0.113.9", "198.51.100.7", 35, state.DropDscp},
			{"a local code point of IPv6 is dropped", "2001:db8:5::9", "2001:db8:1::7", 3, state.DropDscp},
		} {
			if _, got := r.One(build, r.Frame("lan", marked(c.from, c.to, c.dscp))); got != c.want {
				t.Errorf("%s: %s: %s, want %s", build, c.name, got, c.want)
			}
		}
	}

	file, problems := config.Load("weft.toml", []byte("[interface.wan]\n[dscp.uplink]\ninterfaces = [\"wan\"]\n"), append(config.CoreSections(), dscp.Section()))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	run := New(t.Context(), runner.Doors{Log: slog.New(slog.DiscardHandler), Datapath: r.Datapath})
	defer run.Close()
	if err := run.Apply(t.Context(), runner.Round{File: file}); err != nil {
		t.Fatal(err)
	}
	n := dscp.Nouns()[0]
	q, err := noun.NewQuery(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := n.Rows(t.Context(), run, q)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := rows.Table(&table, 80); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`\S+ +3 +2 +0\.0\n\S+ +35 +2 +0\.0\n$`).Match(table.Bytes()) {
		t.Errorf("weft show dscp prints\n%s", &table)
	}
	var metrics []string
	err = n.Measure(t.Context(), run, q, func(name string, value float64, labels ...string) {
		metrics = append(metrics, fmt.Sprintf("%s%v=%g", name, labels[1:], value))
	})
	if got := strings.Join(metrics, " "); err != nil || got != "weft_dscp_dropped_packets_total[3]=2 weft_dscp_dropped_packets_total[35]=2" {
		t.Errorf("the metrics are %s (%v)", got, err)
	}
	if health := run.Status(t.Context()); len(health) != 1 || health[0].Condition != state.Working {
		t.Errorf("the health is %v", health)
	}
}

func TestTheRateIsOfTheTimeBetweenTwoReadings(t *testing.T) {
	packets := uint64(100)
	m := &meter{read: func() ([]dscptable.Drops, error) {
		return []dscptable.Drops{{Device: "wan", DSCP: 3, Packets: packets}}, nil
	}}
	start := time.Unix(1000, 0)
	m.look(start)
	packets = 300
	m.look(start.Add(2 * time.Second))
	if want := (dscp.Row{Device: "wan", DSCP: 3, Packets: 300, PerSecond: 100}); len(m.rows) != 1 || m.rows[0] != want {
		t.Errorf("the rows are %+v, want %+v", m.rows, want)
	}
}
