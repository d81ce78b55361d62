package watch

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/internal/simulate/scenario"
)

func server(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t *testing.T, s *Server, path string, query url.Values) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", path+"?"+query.Encode(), nil))
	return w
}

func TestThePageHasEveryScenarioAndNothingInline(t *testing.T) {
	names, err := scenario.Names()
	if err != nil {
		t.Fatal(err)
	}
	s := server(t, Options{})
	for _, n := range names {
		w := get(t, s, "/", url.Values{"scenario": {n}})
		text := w.Body.String()
		if w.Code != 200 || !strings.Contains(text, `data-scenario="`+n+`"`) || !strings.Contains(text, scene(t, n).Spec.General.Title) {
			t.Errorf("%s: %d\n%s", n, w.Code, text)
		}
		if found := regexp.MustCompile(`<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`).FindString(text); found != "" {
			t.Errorf("%s: the page has %q, which its policy forbids", n, found)
		}
		for _, other := range names {
			if !strings.Contains(text, `<option value="`+other+`"`) {
				t.Errorf("%s: the menu lacks %s", n, other)
			}
		}
	}
}

func TestThePageBeginsAsToldAndAsAsked(t *testing.T) {
	s := server(t, Options{Scenario: "chunks", Schedulers: []string{"daps", "fair+blest"}, Set: []string{"path.lan.rate=3 Mbit/s"}})
	first := get(t, s, "/", nil).Body.String()
	for _, want := range []string{`data-scenario="chunks"`, "<option selected>daps</option>", "<option selected>fair&#43;blest</option>", `aria-valuetext="3 Mbit/s"`, `data-base="1 Mbit/s"`} {
		if !strings.Contains(first, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	asked := get(t, s, "/", url.Values{"scenario": {"chunks"}, "a": {"ecf"}, "b": {""}, "set": {"path.lan.rate=7 Mbit/s"}}).Body.String()
	if !strings.Contains(asked, "<option selected>ecf</option>") || strings.Contains(asked, "<option selected>daps") || !strings.Contains(asked, `aria-valuetext="7 Mbit/s"`) {
		t.Error("the page is not what its address says")
	}
}

func TestWrongOptionsAreRefusedAtTheStart(t *testing.T) {
	for says, o := range map[string]Options{
		`no scenario is called "unequl"`:          {Scenario: "unequl"},
		`no scheduler is called "fifi"`:           {Schedulers: []string{"fifi"}},
		"at most two schedulers":                  {Schedulers: []string{"ecf", "daps", "blest"}},
		`"fast" is not a rate`:                    {Set: []string{"path.fast.rate=fast"}},
		"the page can change path.fast.rate":      {Set: []string{"path.fast.colour=red"}},
		"read scenario: open no-such-file.toml: ": {File: "no-such-file.toml"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want %q", err, says)
		}
	}
}

func TestWhatThePageAsksWronglyIsAnswered(t *testing.T) {
	s := server(t, Options{})
	for _, c := range []struct {
		query string
		says  string
	}{
		{"scenario=nothing", `no scenario is called "nothing"`},
		{"scenario=/etc/passwd", `no scenario is called "/etc/passwd"`},
		{"scenario=../unequal.toml", "no scenario is called"},
		{"scenario=unequal&scheduler=best", `no scheduler is called "best"`},
		{"scenario=unequal&set=path.fast.rate%3Dx", `"x" is not a rate`},
		{"scenario=unequal&set=path.fast.delay%3D-5ms", `"-5ms" is not a duration`},
		{"scenario=unequal&set=path.fast.queue%3D1+B", "has no room for one packet"},
		{"scenario=unequal&set=path.fast.loss%3D100%25", "loses everything"},
		{"scenario=unequal&set=scenario.seed%3D-1", "is not a whole number"},
		{"scenario=unequal&set=nonsense", "write KEY=VALUE"},
		{"scenario=unequal&set=path.fast.trace%3D/etc/passwd", "the page can change"},
		{"scenario=page&set=stream.page.page%3D/etc/passwd", "the page can change"},
		{"scenario=unequal&set=scenario.initial_window%3D100000000", "the page can change"},
		{"scenario=unequal&from=yesterday", `"yesterday" is not a time`},
		{"scenario=unequal&for=1h", "is not a time like 1.5s, up to 2m0s"},
		{"scenario=unequal&from=1h", "but the run ends at"},
		{"scenario=unequal" + strings.Repeat("&set=a", 201), "more than there are"},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/trace?"+c.query, nil))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.says) || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %s, want %q", c.query, w.Code, w.Body, c.says)
		}
	}
	// the page itself says what is wrong, and shows what it can
	page := get(t, s, "/", url.Values{"scenario": {"unequal"}, "set": {"path.fast.rate=<script>"}})
	if text := page.Body.String(); page.Code != 200 || !strings.Contains(text, "&lt;script&gt;&#34; is not a rate") || strings.Contains(text, "<script>") {
		t.Errorf("%d %s", page.Code, text)
	}
	for _, r := range []*http.Request{httptest.NewRequest("POST", "/trace", nil), httptest.NewRequest("POST", "/measured", nil), httptest.NewRequest("GET", "/nothing", nil)} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code < 400 {
			t.Errorf("%s %s: %d", r.Method, r.URL, w.Code)
		}
	}
}

func TestTracesComePackedOrPlain(t *testing.T) {
	s := server(t, Options{})
	query := url.Values{"scenario": {"unequal"}, "scheduler": {"ecf"}, "set": {"path.slow.delay=20ms"}, "for": {"500ms"}}
	plain := get(t, s, "/trace", query)
	if f := decode(t, plain.Body.Bytes()); f.Scheduler != "ecf" || f.Paths[1].Delay != 20e6 || f.To != 500e6 {
		t.Errorf("scheduler %s, delay %s, to %s", f.Scheduler, f.Paths[1].Delay, f.To)
	}
	r := httptest.NewRequest("GET", "/trace?"+query.Encode(), nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(text, plain.Body.Bytes()) {
		t.Error("packed it is another trace")
	}
}

func TestAFileIsReadAnewForEachRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mine.toml")
	write := func(rate string) {
		text := "[scenario]\ntitle = \"My lines\"\n[path.dsl]\nrate = \"" + rate + "\"\ndelay = \"5ms\"\n[stream.s]\nsize = \"50 kB\"\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("8 Mbit/s")
	s := server(t, Options{File: name})
	if text := get(t, s, "/", nil).Body.String(); !strings.Contains(text, "My lines") {
		t.Error("the page begins with something else")
	}
	for _, rate := range []string{"8 Mbit/s", "4 Mbit/s"} {
		write(rate)
		f := decode(t, get(t, s, "/trace", url.Values{"scenario": {name}}).Body.Bytes())
		if want := map[string]int64{"8 Mbit/s": 8e6, "4 Mbit/s": 4e6}[rate]; f.Paths[0].Rate != want {
			t.Errorf("the rate is %d, the file says %s", f.Paths[0].Rate, rate)
		}
	}
	write("fast")
	if w := get(t, s, "/trace", url.Values{"scenario": {name}}); w.Code != 400 || !strings.Contains(w.Body.String(), "mine.toml:4:") {
		t.Errorf("a mistake in the file: %d %s", w.Code, w.Body)
	}
}

func TestEveryPositionOfEverySliderIsAnAnswer(t *testing.T) {
	names, err := scenario.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		src, err := scenario.Find(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range Parameters(scene(t, n)) {
			if !slices.Contains(p.Stops, p.Value()) || p.At < 0 {
				t.Errorf("%s: %s stands nowhere", n, p.Key)
			}
			for _, stop := range p.Stops {
				if _, err := scenario.Load(src, p.Key+"="+stop); err != nil {
					t.Errorf("%s: %s=%s: %v", n, p.Key, stop, err)
				}
			}
		}
	}
}

func TestSlidersAreInOrder(t *testing.T) {
	order := map[string]func(string) float64{"rate": rateOf, "delay": spanOf, "jitter": spanOf, "every": spanOf, "queue": sizeOf, "size": sizeOf, "receive buffer": sizeOf, "loss": shareOf, "count": numberOf, "seed": numberOf}
	for _, p := range Parameters(scene(t, "mix", "path.dsl.rate=3.3 Mbit/s", "path.dsl.queue=70 KiB", "path.dsl.loss=0.03%", "stream.request.every=33ms", "scenario.seed=77", "scenario.receive_buffer=unlimited")) {
		if p.List {
			continue
		}
		value := order[p.Label]
		for i := 1; i < len(p.Stops); i++ {
			if value(p.Stops[i]) <= value(p.Stops[i-1]) {
				t.Errorf("%s: %s comes after %s", p.Key, p.Stops[i], p.Stops[i-1])
			}
		}
	}
}

func TestOneRunAtATime(t *testing.T) {
	s := server(t, Options{Runs: 1})
	s.slots <- struct{}{} // a run is under way
	r := httptest.NewRequest("GET", "/trace?scenario=unequal", nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(ctx))
		done <- w.Body.Len()
	}()
	cancel() // the page does not want it any more
	if n := <-done; n != 0 {
		t.Errorf("%d bytes for a request that was given up", n)
	}
	<-s.slots
	if w := get(t, s, "/trace", url.Values{"scenario": {"unequal"}}); w.Code != 200 || len(s.slots) != 0 {
		t.Errorf("afterwards: %d, %d runs under way", w.Code, len(s.slots))
	}
}
