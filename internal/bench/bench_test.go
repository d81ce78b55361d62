package bench

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func example() Bench {
	return Bench{
		Name: "race", Title: "Who is faster",
		Cases:    []Case{{Name: "run", Unit: "m/s"}, {Name: "swim", Unit: "m/s", About: "in <water>"}},
		Subjects: []Subject{{Name: "cat"}, {Name: "dog"}, {Name: "fish"}},
		Fits:     func(c, s string) bool { return c != "run" || s != "fish" },
		Bars:     []Bar{{"run", "cat", 2, "dog"}, {"swim", "dog", 0.5, "fish"}, {"run", "cat", 2, "horse"}},
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing has none", nil, 0},
		{"one value is its own", []float64{3}, 3},
		{"of an odd number it is the middle one, whatever the order", []float64{9, 1, 5}, 5},
		{"of an even number it is the mean of the middle two", []float64{4, 100, 1, 2}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slices.Clone(c.values)
			if got := Median(c.values); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if !slices.Equal(before, c.values) {
				t.Error("the values have changed their order")
			}
		})
	}
}

func TestEveryRoundMeasuresEveryPairOnceCaseByCase(t *testing.T) {
	steps, err := example().Plan(Options{Rounds: 3, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) != 3*5 {
		t.Fatalf("%d steps, want 15", len(steps))
	}
	for round := range 3 {
		var pairs []string
		for i, s := range steps[round*5 : round*5+5] {
			if s.Round != round+1 {
				t.Errorf("step %d of round %d says round %d", i, round+1, s.Round)
			}
			if want := map[bool]string{true: "run", false: "swim"}[i < 2]; s.Case.Name != want {
				t.Errorf("step %d measures %s, want %s", i, s.Case.Name, want)
			}
			pairs = append(pairs, s.Case.Name+" "+s.Subject)
		}
		slices.Sort(pairs)
		if want := []string{"run cat", "run dog", "swim cat", "swim dog", "swim fish"}; !slices.Equal(pairs, want) {
			t.Errorf("round %d measures %v", round+1, pairs)
		}
	}
}

func TestTheSeedDecidesTheOrder(t *testing.T) {
	order := func(seed uint64) (names []string) {
		steps, err := example().Plan(Options{Rounds: 20, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			names = append(names, s.Subject)
		}
		return names
	}
	if !slices.Equal(order(1), order(1)) {
		t.Error("one seed gave two orders")
	}
	if slices.Equal(order(1), order(2)) {
		t.Error("two seeds gave one order")
	}
}

func TestWhatTheBenchDoesNotHaveIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		o          Options
	}{
		{"a case", "run, swim", Options{Rounds: 1, Cases: []string{"fly"}}},
		{"a subject", "cat, dog, fish", Options{Rounds: 1, Subjects: []string{"cow"}}},
		{"a pair", "no measurement", Options{Rounds: 1, Cases: []string{"run"}, Subjects: []string{"fish"}}},
		{"no rounds", "at least one round", Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := example().Plan(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

// script answers each measurement with the next value that it has for the pair.
type script map[string][]float64

func (s script) Measure(_ context.Context, c, subject string) (float64, error) {
	key := c + " " + subject
	if len(s[key]) == 0 {
		return 0, errors.New("out of breath")
	}
	v := s[key][0]
	s[key] = s[key][1:]
	return v, nil
}

func (script) Close(context.Context) error { return nil }

func TestResultsSumUpTheRounds(t *testing.T) {
	s := script{"run cat": {8, 6, 7}, "run dog": {3, 1, 2}}
	results, err := example().Run(t.Context(), s, Options{Rounds: 3, Cases: []string{"run"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{{"race", "run", "cat", "m/s", 7, 6, 8, 3}, {"race", "run", "dog", "m/s", 2, 1, 3, 3}}
	if !slices.Equal(results, want) {
		t.Errorf("got %v, want %v", results, want)
	}
}

func TestAMeasurementThatFailsIsNamed(t *testing.T) {
	_, err := example().Run(t.Context(), script{"run cat": {1}}, Options{Rounds: 2, Cases: []string{"run"}, Subjects: []string{"cat"}})
	if err == nil || !strings.Contains(err.Error(), "run of cat, round 2: out of breath") {
		t.Errorf("got %v", err)
	}
}

func TestBarsAreJudgedByMediansWhereBothAreThere(t *testing.T) {
	got := example().Judge([]Result{
		{Case: "run", Subject: "cat", Median: 3}, {Case: "run", Subject: "dog", Median: 2},
		{Case: "swim", Subject: "dog", Median: 1}, {Case: "swim", Subject: "fish", Median: 2},
	})
	want := []Verdict{{example().Bars[0], 1.5, "", false}, {example().Bars[1], 0.5, "", true}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestBarsWithoutAnotherSubjectAreInTheCasesUnit(t *testing.T) {
	b := Bench{
		Cases: []Case{{Name: "run", Unit: "m/s"}, {Name: "rest", Unit: "s", Less: true}},
		Bars:  []Bar{{Case: "run", Subject: "cat", Times: 5}, {Case: "rest", Subject: "cat", Times: 5}},
	}
	for _, c := range []struct {
		median    float64
		run, rest bool
	}{{4, false, true}, {5, true, true}, {6, true, false}} {
		got := b.Judge([]Result{{Case: "run", Subject: "cat", Median: c.median}, {Case: "rest", Subject: "cat", Median: c.median}})
		want := []Verdict{{b.Bars[0], c.median, "m/s", c.run}, {b.Bars[1], c.median, "s", c.rest}}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func results() ([]Result, Manifest) {
	return []Result{
			{"race", "run", "weft-cat", "m/s", 7, 6, 8, 3},
			{"race", "run", "dog & co", "m/s", 2, 1, 3, 3},
			{"race", "swim", "dog & co", "m/s", 0, 0, 0, 3},
		}, Manifest{
			Bench: "race", Version: "1", Kernel: "6.12", CPU: "A <fast> one", CPUs: 2, Seed: 5,
			Packages: map[string]string{"tayga": "0.9"}, Settings: map[string]string{"water": "wet"}, Started: time.Unix(1e9, 0).UTC(),
		}
}

func TestJSONComesBackAsItWasWritten(t *testing.T) {
	list, manifest := results()
	var text bytes.Buffer
	if err := WriteJSON(&text, list, manifest); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), `{"bench":"race","case":"run","subject":"weft-cat","unit":"m/s","median":7,"min":6,"max":8,"rounds":3}`+"\n") {
		t.Errorf("the first line is %s", text.String())
	}
	gotList, gotManifest, err := ReadJSON(&text)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(gotList, list) || !reflect.DeepEqual(gotManifest, manifest) {
		t.Errorf("got %v and %v", gotList, gotManifest)
	}
}

func TestAResultThatWasCutOffIsRefused(t *testing.T) {
	for _, text := range []string{"", `{"bench":"race"}`, `{"bench":`, "{\"manifest\":null}\n"} {
		if _, _, err := ReadJSON(strings.NewReader(text)); err == nil {
			t.Errorf("%q passed", text)
		}
	}
}

func TestTheTableHasEveryResultAndTheBars(t *testing.T) {
	var text strings.Builder
	list := []Result{{"race", "run", "cat", "m/s", 3, 2, 4, 9}, {"race", "run", "dog", "m/s", 2, 1, 3, 9}}
	if err := example().WriteTable(&text, list, Manifest{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cat    3.00  2.00  4.00       9", "dog    2.00", "is 1.50 of", "MISSED"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestTheChartIsAPictureWithABarForEveryResult(t *testing.T) {
	list, manifest := results()
	var text bytes.Buffer
	if err := Chart(&text, list, manifest); err != nil {
		t.Fatal(err)
	}
	bars, words := map[string][]string{}, ""
	d := xml.NewDecoder(&text)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			attributes := map[string]string{}
			for _, a := range x.Attr {
				attributes[a.Name.Local] = a.Value
			}
			if class := attributes["class"]; x.Name.Local == "rect" && class != "" {
				bars[class] = append(bars[class], attributes["width"])
			}
		case xml.CharData:
			words += string(x)
		}
	}
	// the longest bar is 7 of 8 of the room that the largest round takes
	if want := map[string][]string{"weft": {"402.5"}, "peer": {"115.0", "0.0"}}; !reflect.DeepEqual(bars, want) {
		t.Errorf("the bars are %v, want %v", bars, want)
	}
	for _, want := range []string{"weft-cat", "dog & co", "A <fast> one", "6.00 to 8.00"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
}

func TestLimitsAreHeldByTheirOwnMedian(t *testing.T) {
	b := example()
	b.Limits = []Limit{
		{Case: "run", Subject: "cat", AtLeast: 3}, {Case: "run", Subject: "dog", AtMost: 1},
		{Case: "swim", Subject: "dog", AtMost: 1}, {Case: "swim", Subject: "horse", AtLeast: 1},
	}
	results := []Result{
		{Case: "run", Subject: "cat", Median: 3}, {Case: "run", Subject: "dog", Median: 2},
		{Case: "swim", Subject: "dog", Median: 1},
	}
	want := []Holding{{b.Limits[0], 3, true}, {b.Limits[1], 2, false}, {b.Limits[2], 1, true}}
	if got := b.Hold(results); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var text strings.Builder
	if err := b.WriteTable(&text, results, Manifest{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"run   cat  is 3.00  at least 3.00  met", "run   dog  is 2.00  at most 1.00   MISSED"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%q is not in\n%s", line, text.String())
		}
	}
}
