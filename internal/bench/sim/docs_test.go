package sim

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"weft/internal/bench"
	"weft/schedule"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("../../../docs/benchmarks", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	results, manifest, err := bench.ReadJSON(bytes.NewReader(read("sim.json")))
	if err != nil {
		t.Fatal(err)
	}
	b := Bench()
	if want := 3 + len(schedule.Routers()) + len(schedule.Orders()); len(results) != want || manifest.Bench != b.Name || manifest.Commit == "" {
		t.Errorf("%d results of bench %q at commit %q, want %d of a commit that is known", len(results), manifest.Bench, manifest.Commit, want)
	}
	var table, chart bytes.Buffer
	if err := b.WriteTable(&table, results, manifest); err != nil {
		t.Fatal(err)
	}
	if err := bench.Chart(&chart, results, manifest); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(table.Bytes(), read("sim.txt")) {
		t.Error("sim.txt is not what weft bench report makes of sim.json")
	}
	if !bytes.Equal(chart.Bytes(), read("sim.svg")) {
		t.Error("sim.svg is not what weft bench chart makes of sim.json")
	}
}
