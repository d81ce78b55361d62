package scenario

import (
	"context"
	"strings"
	"testing"
	"time"

	"weft/internal/simulate"
)

func TestEveryScenarioOfTheProgramRuns(t *testing.T) {
	names, err := Names()
	if err != nil || len(names) < 6 {
		t.Fatalf("%v %v", names, err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			src, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Load(src)
			if err != nil {
				t.Fatal(err)
			}
			if s.Spec.General.Title == "" || s.Spec.General.About == "" {
				t.Error("it does not say what it shows")
			}
			m, err := simulate.New(s.Setup, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := m.Run(context.Background())
			if err != nil || r.Delivered == 0 || s.Setup.End == 0 && r.Open > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

const good = `[scenario]
end = "9s"
[path.a]
rate = "20 Mbit/s"
delay = "10ms"
[stream.s]
size = "1 MB"
`

func load(text string, set ...string) (*Scenario, error) {
	return Load(Source{Name: "x", File: "x.toml", Text: []byte(text), Read: func(string) ([]byte, error) { return []byte("1\n2\nx\n"), nil }}, set...)
}

func TestWhatIsWrongIsSaidWithItsPlace(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"a rate without a unit", `"20 Mbit/s"`, `"20"`, `x.toml:4:8: error: path.a.rate: "20" is not a rate`},
		{"a rate in bytes", `"20 Mbit/s"`, `"20 MB"`, `is not a rate`},
		{"a negative rate", `"20 Mbit/s"`, `"-2 Mbit/s"`, `is not a rate`},
		{"no rate", `rate = "20 Mbit/s"`, ``, `has no rate`},
		{"a rate and a trace", `delay = "10ms"`, `trace = "t"`, `a path has a rate or a trace`},
		{"a trace that is none", `rate = "20 Mbit/s"`, `trace = "t"`, `line 3 of the trace is "x"`},
		{"an unknown key", `delay`, `dealy`, `did you mean delay?`},
		{"a scheduler that is none", `end = "9s"`, `scheduler = "ecff"`, `no scheduler is called "ecff"`},
		{"a congestion control that is none", `end = "9s"`, `congestion = "vegas"`, `is none of its values`},
		{"a loss without a percent sign", `delay = "10ms"`, `loss = "0.1"`, `is not a percentage`},
		{"a loss of everything", `delay = "10ms"`, `loss = "100%"`, `loses everything`},
		{"a burst that lacks a part", `delay = "10ms"`, `burst = { enter = "1%" }`, `is not complete`},
		{"a queue without room for a packet", `delay = "10ms"`, `queue = "1 kB"`, `has no room for one packet`},
		{"a receive buffer without room", `end = "9s"`, `receive_buffer = "2000 B"`, `holds less than two packets`},
		{"a span that ends before it begins", `delay = "10ms"`, `down = ["2s-1s"]`, `path.a.down[0]: "2s-1s" is not a span of time`},
		{"spans that overlap", `delay = "10ms"`, `down = ["1s-3s", "2s-4s"]`, `begins before the one before it has ended`},
		{"an unlimited stream without an end", "end = \"9s\"\n[path.a]\nrate = \"20 Mbit/s\"\ndelay = \"10ms\"\n[stream.s]\nsize = \"1 MB\"", "[path.a]\nrate = \"20 Mbit/s\"\n[stream.s]\nsize = \"unlimited\"", `is unlimited, so the run would not end`},
		{"streams without end all at once", `size = "1 MB"`, "size = \"1 MB\"\ncount = 0", `all would arrive at once`},
		{"no size", `size = "1 MB"`, ``, `has no size`},
		{"a page that is none", `size = "1 MB"`, `page = "p"`, `line 1 of the page has 1 columns, not 4`},
		{"no streams", "[stream.s]\nsize = \"1 MB\"", ``, `there is nothing to send`},
		{"no path", "[path.a]\nrate = \"20 Mbit/s\"\ndelay = \"10ms\"", ``, `there is no path`},
	}
	if _, err := load(good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(good, tt.old, tt.new, 1)
			if text == good {
				t.Fatal("the test changes nothing")
			}
			_, err := load(text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestValuesAreSetFromOutside(t *testing.T) {
	s, err := load(good, "path.a.delay=70ms", "path.a.rate=3 Mbit/s", "scenario.seed=9", "path.a.burst.enter=1%", "path.a.burst.leave=2%", "path.a.burst.loss=3%", "path.a.down=1s-2s,3s-4s")
	if err != nil {
		t.Fatal(err)
	}
	p := s.Setup.Paths[0]
	if p.Delay != 70*time.Millisecond || p.Rate != 3_000_000 || s.Setup.Seed != 9 || p.Loss != (simulate.Loss{Enter: 10_000, Leave: 20_000, Bad: 30_000}) || len(p.Changes) != 4 {
		t.Errorf("setup is %+v", s.Setup)
	}
	for set, want := range map[string]string{
		"path.b.delay=1s":           "no such section",
		"path.a.dealy=1s":           "there is no key dealy",
		"path.a.delay=1":            "not a duration",
		"path.a.delay":              "write KEY=VALUE",
		"path.a.rate=fast":          "is not a rate",
		"scenario.congestion=vegas": "is none of",
		"scenario.mss=99":           "is not a whole number",
		"scenario.mss=65001":        "is not a whole number",
		"path.a.burst=1":            "cannot be set",
		"path.a.rate.x=1":           "has no keys",
	} {
		if _, err := load(good, set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", set, err, want)
		}
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{"20 Mbit/s": 20e6, "1.5Gbit/s": 1.5e9, "64 kbit/s": 64e3, "1000 bit/s": 1000} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%s is %d (%v), want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]int64{"1.5 MB": 1.5e6, "64 KiB": 65536, "7 bytes": 7, "7B": 7, "unlimited": simulate.Unlimited} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MB", "1.5 B", "-1 MB", "1e3 kB", "1/2 MB", "0 B", "9999999 GB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q was read as %d bytes", text, got)
		}
	}
	if n, err := parseShare("0.05%"); n != 500 || err != nil {
		t.Errorf("0.05%% is %d ppm (%v)", n, err)
	}
}

func TestKeysSaysAllThatAScenarioCanSay(t *testing.T) {
	var out strings.Builder
	Keys(&out)
	for _, want := range []string{"[path.NAME]", "receive_buffer", "mahimahi", "One of droptail, codel.", "Default: 25ms."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not there", want)
		}
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if f := strings.Fields(line); len(f) == 1 {
			t.Errorf("%s has no meaning", f[0])
		}
	}
}
