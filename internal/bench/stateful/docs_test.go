package stateful

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"weft/internal/bench"
)

func TestThePublishedTableAndChartAreMadeFromThePublishedResult(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("../../../docs/benchmarks", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	results, manifest, err := bench.ReadJSON(bytes.NewReader(read("nat64-stateful.json")))
	if err != nil {
		t.Fatal(err)
	}
	b := Bench(DefaultSeconds)
	if want := len(b.Cases)*4 - 4; len(results) != want || manifest.Bench != b.Name || manifest.Commit == "" {
		t.Errorf("%d results of bench %q at commit %q, want %d of a commit that is known", len(results), manifest.Bench, manifest.Commit, want)
	}
	var table, chart bytes.Buffer
	if err := b.WriteTable(&table, results, manifest); err != nil {
		t.Fatal(err)
	}
	if err := bench.Chart(&chart, results, manifest); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(table.Bytes(), read("nat64-stateful.txt")) {
		t.Error("nat64-stateful.txt is not what weft bench report makes of nat64-stateful.json")
	}
	if !bytes.Equal(chart.Bytes(), read("nat64-stateful.svg")) {
		t.Error("nat64-stateful.svg is not what weft bench chart makes of nat64-stateful.json")
	}
}
