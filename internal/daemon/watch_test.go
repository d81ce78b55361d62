package daemon_test

// What people and Prometheus see of pseudowires and bridges agrees, and is what
// happened.

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

const listening = "[metrics]\nlisten = \"127.0.0.1:9100\"\n"

// metric returns a value that Prometheus would read, -1 if there is none.
func (w *topology) metric(name string) float64 {
	w.t.Helper()
	w.run(w.router, "ip link set lo up")
	for line := range strings.Lines(w.run(w.router, "curl --silent --show-error --max-time 10 http://127.0.0.1:9100/metrics")) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				w.t.Fatal(err)
			}
			return n
		}
	}
	return -1
}

func TestPseudowiresAreCountedEachWayAndByFault(t *testing.T) {
	t.Parallel()
	near := newTopology(t, listening+nearEnd(aa, bb))
	far := near.at(near.server, farEnd(bb, aa))
	atNear := near.start()
	far.start()
	eventually(t, "the wire carries", func() bool { return near.reaches(near.router, "10.77.0.9") })
	row := func() map[string]any { return near.rows("pseudowires")[0] }
	number := func(r map[string]any, key string) int { return int(r[key].(float64)) }
	before := row()
	for range 5 {
		near.run(near.router, "ping -c1 -W2 -s1000 10.77.0.9")
	}
	after := row()
	for _, way := range []string{"rx", "tx"} {
		// others speak too: neighbour discovery
		if n := number(after, way+"_packets") - number(before, way+"_packets"); n < 5 || n > 25 {
			t.Errorf("%s: %d packets for 5 echoes", way, n)
		}
		if n := number(after, way+"_bytes") - number(before, way+"_bytes"); n < 5*1042 || n > 5*1042+20*100 {
			t.Errorf("%s: %d bytes for 5 echoes of 1042", way, n)
		}
	}
	near.write(listening + nearEnd(cc, bb))
	atNear.reload()
	if near.reaches(near.router, "10.77.0.9") {
		t.Error("a wrong cookie was let in")
	}
	near.run(near.router, "ip link set attic mtu 1500") // and too large ones
	for range 3 {
		_, _ = near.try(near.router, "ping -c1 -W1 -s1472 -M do 10.77.0.9") // nothing can come back
	}
	near.run(near.server, "ip link set eth0 down") // the far end is silent
	agree := func() (differ string) {
		now := row()
		faults := now["faults"].(map[string]any)
		if faults["cookie"] == nil || faults["answered"] == nil {
			return fmt.Sprintf("faults are %v, want cookie and answered", faults)
		}
		for key, value := range map[string]any{
			`weft_pseudowire_packets_total{device="attic",direction="rx"}`: now["rx_packets"],
			`weft_pseudowire_bytes_total{device="attic",direction="rx"}`:   now["rx_bytes"],
			`weft_pseudowire_faults_total{device="attic",reason="cookie"}`: faults["cookie"],
		} {
			if got := near.metric(key); got != value {
				return fmt.Sprintf("%s is %v, show pseudowires says %v", key, got, value)
			}
		}
		table := near.mustWeft("show", "pseudowires", "--wide")
		for _, want := range []string{"attic", "l2tpv3-udp", "198.51.100.1:1701", "198.51.100.9:1701", fmt.Sprintf("cookie=%v", faults["cookie"]), "RX BYTES", "TX PACKETS"} {
			if !strings.Contains(table, want) {
				return fmt.Sprintf("show pseudowires lacks %s:\n%s", want, table)
			}
		}
		return ""
	}
	// frames that were sent before may still wait for a busy CPU
	differ := agree()
	for end := time.Now().Add(patience); differ != "" && time.Now().Before(end); differ = agree() {
		time.Sleep(20 * time.Millisecond)
	}
	if differ != "" {
		t.Error(differ)
	}
}

func TestBridgesAreCountedByPortAndReason(t *testing.T) {
	t.Parallel()
	w := newBridged(t, listening+bridged("", secondPort))
	w.start()
	eventually(t, "guests reach the uplink", func() bool { return w.reaches(w.member, "10.9.0.9") && w.reaches(w.other, "10.9.0.9") })
	attacker, uplink := w.frames(w.other), w.frames(w.server)
	for range 7 {
		attacker.send(marked(everybody, memberMAC, "borrowed"))
		attacker.send(frame("01:80:c2:00:00:0e", otherMAC, 0x88cc, nil))
	}
	w.sync(attacker, uplink, "borrowed")
	for reason, want := range map[string]int{"drop-port-moved": 7, "drop-port-management": 7} {
		key := fmt.Sprintf(`weft_bridge_drops_total{bridge="guests",outcome=%q,port="vm"}`, reason)
		if shown, metric := w.dropped("vm", reason), w.metric(key); shown != want || metric != float64(want) {
			t.Errorf("%s: show bridges says %d, Prometheus %v, want %d", reason, shown, metric, want)
		}
	}
	for port, want := range map[string]float64{"lan": 1, "vm": 1, "wan": 1} {
		if n := w.metric(fmt.Sprintf(`weft_bridge_macs{bridge="guests",port=%q}`, port)); n != want {
			t.Errorf("Prometheus counts %v addresses at %s, want %v", n, port, want)
		}
	}
	table := w.mustWeft("show", "bridges", "--wide")
	for _, want := range []string{"bridge guests", "host no", "vlans none", "=" + memberMAC, otherMAC, serverMAC, "uplink", "drop-port-moved", "drop-port-management"} {
		if !strings.Contains(table, want) {
			t.Errorf("show bridges lacks %s:\n%s", want, table)
		}
	}
}

func TestVXLANIsCountedToo(t *testing.T) {
	t.Parallel()
	vxlan := func(toml string) string {
		start, end := strings.Index(toml, "kind = "), strings.Index(toml, "[interface.attic]")
		var kept []string
		for line := range strings.Lines(toml[start:end]) {
			if strings.HasPrefix(line, "src") || strings.HasPrefix(line, "dst =") {
				kept = append(kept, line)
			}
		}
		return toml[:start] + "kind = \"vxlan\"\nvni = 7\n" + strings.Join(kept, "") + toml[end:]
	}
	near := newTopology(t, vxlan(nearEnd(aa, bb)))
	far := near.at(near.server, vxlan(farEnd(bb, aa)))
	near.start()
	far.start()
	eventually(t, "the wire carries", func() bool { return near.reaches(near.router, "10.77.0.9") })
	row := near.rows("pseudowires")[0]
	if row["device"] != "attic" || row["kind"] != "vxlan" || row["rx"] != 7.0 || row["rx_packets"].(float64) < 1 || row["tx_bytes"].(float64) < 84 {
		t.Errorf("show pseudowires --json says %v", row)
	}
	if table := near.mustWeft("show", "pseudowires", "--wide"); !strings.Contains(table, "198.51.100.9:1701") {
		t.Errorf("show pseudowires says\n%s", table)
	}
}
