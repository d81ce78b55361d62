package watch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"weft/internal/simulate"
	"weft/internal/web"
	"weft/internal/web/browser"
	"weft/internal/web/browser/drive"
)

// patience bounds what the browser is waited for; on a busy machine it is slow.
const patience = 4 * time.Minute

type action = chromedp.Action[chromedp.Void]

// view is a tab in which the page is opened.
type view struct {
	t    *testing.T
	ctx  context.Context
	base string

	lock   sync.Mutex
	faults []string
}

// chromium starts the browser and a server for it, or skips the test.
func chromium(t *testing.T, o Options) (ctx context.Context, base string) {
	t.Helper()
	ctx, cancel, err := drive.Start(t.Context())
	if errors.Is(err, browser.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go web.Serve(t.Context(), listener, web.Guard(server(t, o), false))
	return ctx, "http://" + listener.Addr().String()
}

// tab opens a new one, which watches for errors and for what is asked elsewhere.
func tab(t *testing.T, ctx context.Context, base string, first ...action) *view {
	t.Helper()
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // a first call must have no deadline
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	t.Cleanup(stop)
	v := &view{t: t, ctx: ctx, base: base}
	if err := chromedp.Listen(ctx, v.listen); err != nil {
		t.Fatal(err)
	}
	v.run(command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}))
	v.run(first...)
	return v
}

// command makes an action of a command of the protocol.
func command[P, R any](c cdp.Command[P, R], with P) action {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, with)
		return chromedp.Void{}, err
	}
}

// media pretends that the reader prefers something.
func media(feature, value string) action {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
}

func (v *view) listen(e any) {
	v.lock.Lock()
	defer v.lock.Unlock()
	switch e := e.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			v.faults = append(v.faults, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *runtime.EventExceptionThrown:
		v.faults = append(v.faults, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			v.faults = append(v.faults, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, v.base+"/") {
			v.faults = append(v.faults, "asks for "+e.Request.URL)
		}
	}
}

// sound fails the test for whatever went wrong so far.
func (v *view) sound() {
	v.t.Helper()
	v.lock.Lock()
	defer v.lock.Unlock()
	for _, f := range v.faults {
		v.t.Error(f)
	}
	v.faults = nil
}

func (v *view) run(actions ...action) {
	v.t.Helper()
	if err := chromedp.Do(v.ctx, actions...); err != nil {
		v.t.Fatal(err)
	}
}

// open shows the page of a query, and waits until it has drawn.
func (v *view) open(query url.Values) {
	v.t.Helper()
	v.run(chromedp.Navigate(v.base + "/?" + query.Encode()))
	v.until(`document.querySelector(".sides").getAttribute("aria-busy") === "false" && (document.querySelector(".side").dataset.t !== undefined || !document.querySelector("#problem").hidden)`)
}

// until waits for a condition, without a time of its own.
func (v *view) until(condition string) {
	v.t.Helper()
	if err := chromedp.Do(v.ctx, chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingTimeout(0))); err != nil {
		v.t.Fatalf("wait until %s: %v", condition, err)
	}
}

// read evaluates an expression.
func read[T any](v *view, expression string) T {
	v.t.Helper()
	value, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		v.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// do carries statements out.
func do(statements string) action {
	return chromedp.Evaluate[chromedp.Void]("(() => {" + statements + "})()")
}

// time returns the time shown, exactly.
func (v *view) time() simulate.Time {
	return simulate.Time(read[float64](v, `+document.querySelector(".side").dataset.t`))
}

// settled waits for the picture of a time that stands still.
func (v *view) settled() {
	v.until(`document.querySelector("#play").getAttribute("aria-pressed") === "false"`)
	v.until(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// figures is a row of the page's table.
type figures struct {
	Side, Path                                                           string
	Sent, Queued, Flying, Arrived, Dropped, Lost, Failed, Flight, Window string
}

// compare holds one side of the page against the simulator's own account at the
// time shown, without use of a trace.
func (v *view) compare(side, name, scheduler string, set ...string) {
	v.t.Helper()
	at := v.time()
	want := until(v.t, scene(v.t, name, append(set, "scenario.scheduler="+scheduler)...), at)
	got := read[map[string]string](v, `({...document.querySelector("[data-side=`+side+`]").dataset})`)
	if got["delivered"] != strconv.FormatInt(want.Delivered, 10) || got["open"] != strconv.Itoa(want.Open) {
		v.t.Errorf("%s at %s: %s delivered, %s open; the simulator says %d and %d", scheduler, at, got["delivered"], got["open"], want.Delivered, want.Open)
	}
	var arrived int64
	for _, p := range want.Paths {
		arrived += p.Bytes
	}
	if held := strconv.FormatInt(arrived-want.Delivered, 10); got["held"] != held {
		v.t.Errorf("%s at %s: %s held, the simulator says %s", scheduler, at, got["held"], held)
	}
	rows := read[[]figures](v, `[...document.querySelectorAll("#figures tbody tr")].map((r) => ({...r.dataset})).filter((r) => r.side === "`+side+`")`)
	if len(rows) != len(want.Paths) {
		v.t.Fatalf("%d paths in the table, want %d", len(rows), len(want.Paths))
	}
	for i, p := range want.Paths {
		r := rows[i]
		text := strconv.FormatUint
		way := text(p.Packets-p.Dropped-p.Lost-p.Failed-p.Arrived, 10)
		queued, _ := strconv.ParseUint(r.Queued, 10, 64)
		flying, _ := strconv.ParseUint(r.Flying, 10, 64)
		if r.Path != p.Name || r.Sent != text(p.Packets, 10) || r.Dropped != text(p.Dropped, 10) || r.Lost != text(p.Lost, 10) || r.Failed != text(p.Failed, 10) {
			v.t.Errorf("%s at %s: %+v, the simulator says %+v", scheduler, at, r, p)
		}
		if p.Probes == 0 && (r.Arrived != text(p.Arrived, 10) || text(queued+flying, 10) != way) {
			v.t.Errorf("%s at %s: %+v, the simulator says %d arrived and %s on their way", scheduler, at, r, p.Arrived, way)
		}
	}
}

func query(name string, more ...string) url.Values {
	q := url.Values{"scenario": {name}}
	for i := 0; i < len(more); i += 2 {
		q.Add(more[i], more[i+1])
	}
	return q
}

func TestThePage(t *testing.T) {
	ctx, base := chromium(t, Options{Runs: 2})
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context, string)
	}{
		{"faults are noticed", pageFaultsAreNoticed},
		{"every scenario is shown without errors, on a narrow screen too", pageShowsEverything},
		{"any time shows the simulator's state", pageShowsTheState},
		{"the scrubber goes to any time", pageScrubs},
		{"both sides have the same arrivals", pageHasTheSameArrivals},
		{"bars add up to what remains", pageBarsAddUp},
		{"the canvas shows queues", pageDrawsQueues},
		{"keys work", pageHasKeys},
		{"focus is seen and goes everywhere", pageShowsFocus},
		{"a slider runs it again", pageRunsAgain},
		{"what is wrong is said", pageSaysWhatIsWrong},
		{"less motion is respected", pageRespectsLessMotion},
		{"it is dark where the reader wants that", pageIsDark},
		{"an address is a moment", pageAddressIsAMoment},
		{"a long run comes in parts", pageComesInParts},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, ctx, base) })
	}
}

// pageFaultsAreNoticed holds the test itself to its word: what sound looks for is
// found when it is there.
func pageFaultsAreNoticed(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("unequal", "t", "1"))
	v.sound()
	v.run(do(`document.addEventListener("securitypolicyviolation", () => (window.refused = true));
		console.error("a mistake"); fetch("http://192.0.2.1/elsewhere").catch(() => {})`))
	v.until(`window.refused`)
	v.lock.Lock()
	found := strings.Join(v.faults, "\n")
	v.lock.Unlock()
	for _, want := range []string{"a mistake", "192.0.2.1"} {
		if !strings.Contains(found, want) {
			t.Errorf("%s was not noticed: %q", want, found)
		}
	}
}

func pageShowsEverything(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	s := server(t, Options{})
	names, err := s.names()
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{1400, 360} {
		v.run(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 740, DeviceScaleFactor: 1, Mobile: width < 500}))
		for i, name := range names {
			if width > 500 && i > 1 {
				break // narrow is what is hard
			}
			v.open(query(name, "t", "0.5"))
			v.sound()
			size := read[map[string]int64](v, `({has: document.documentElement.scrollWidth, sees: innerWidth})`)
			if size["has"] > size["sees"] || size["sees"] != width {
				t.Errorf("%s: the page is %d wide, the screen %d", name, size["has"], size["sees"])
			}
			if n := read[int](v, `document.querySelectorAll("g.slot[visibility=visible]").length`); n == 0 {
				t.Errorf("%s: no stream is shown", name)
			}
		}
	}
}

func pageShowsTheState(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	for _, c := range []struct{ name, a, b, at string }{
		{"unequal", "lowrtt", "ecf", "0.000000001"},
		{"unequal", "lowrtt", "redundant", "0.987654321"},
		{"chunks", "lowrtt", "ecf", "2.75"},
		{"blocking", "lowrtt", "blest", "9.123456"},
		{"page", "ecf", "daps", "20.5"},
		{"fifty", "turns", "shortest", "1.3"},
		{"kernel", "mptcp", "lowrtt", "2.6"},
	} {
		v.open(query(c.name, "a", c.a, "b", c.b, "t", c.at))
		v.settled()
		if at, _ := time.ParseDuration(c.at + "s"); v.time() != at {
			t.Errorf("the page shows %s, asked for %s", v.time(), at)
		}
		v.compare("a", c.name, c.a)
		v.compare("b", c.name, c.b)
	}
	v.sound()
}

func pageScrubs(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("unequal", "a", "lowrtt", "b", "ecf", "t", "0"))
	last := simulate.Time(-1)
	for _, part := range []float64{0.9, 0.123, 0.5} { // on and back
		v.run(do(fmt.Sprintf(`const x = document.querySelector("#time"); x.value = %g * x.max; x.dispatchEvent(new Event("input", {bubbles: true}))`, part)))
		v.settled()
		if v.time() == last {
			t.Errorf("the scrubber stays at %s", last)
		}
		last = v.time()
		v.compare("a", "unequal", "lowrtt")
		v.compare("b", "unequal", "ecf")
	}
	v.until(`location.search.includes("t=" + (+document.querySelector(".side").dataset.t / 1e9).toFixed(3).slice(0, 4))`)
}

func pageHasTheSameArrivals(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("mix", "a", "turns", "b", "shortest", "t", "4"))
	all := read[map[string][]string](v, `Object.fromEntries([...document.querySelectorAll(".side")].map((s) =>
		[s.dataset.side, [...s.querySelectorAll("g.slot[visibility=visible]")].map((g) => g.dataset.stream + "@" + g.dataset.arrive + "@" + g.getAttribute("transform"))]))`)
	if len(all["a"]) < 5 || strings.Join(all["a"], " ") != strings.Join(all["b"], " ") {
		t.Errorf("streams, arrivals and places are\n%s\n%s", all["a"], all["b"])
	}
	want := until(t, scene(t, "mix"), v.time())
	done := read[[]string](v, `[...document.querySelectorAll(".side")].map((s) => s.dataset.complete)`)
	if got := strconv.FormatUint(want.Sources[0].Complete.Count+want.Sources[1].Complete.Count, 10); done[0] != got {
		t.Errorf("%s are complete in turns, the simulator says %s", done[0], got)
	}
}

func pageBarsAddUp(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("fifty", "a", "turns", "b", "", "t", "1.1"))
	bars := read[[]struct{ Remains, Flight, Held, Missing, Stream string }](v, `[...document.querySelectorAll("g.slot[visibility=visible]")].map((g) => ({...g.dataset}))`)
	if len(bars) != 50 {
		t.Errorf("%d bars, want 50", len(bars))
	}
	f := encode(t, scene(t, "fifty", "scenario.scheduler=turns"), 0, maxWindow, DefaultLimits())
	at := v.time()
	var remains, held, total int64
	for _, s := range f.Streams {
		total += s.Size
	}
	for _, b := range bars {
		n := func(text string) int64 { x, _ := strconv.ParseInt(text, 10, 64); return x }
		remains += n(b.Remains)
		held += n(b.Held)
		if n(b.Flight)+n(b.Held)+n(b.Missing) > n(b.Remains) || n(b.Missing) < 0 {
			t.Errorf("stream %s: %+v", b.Stream, b)
		}
	}
	if want := total - f.delivered(at); remains != want {
		t.Errorf("%d bytes remain in the bars, want %d", remains, want)
	}
	if text := read[string](v, `document.querySelector(".side").dataset.held`); text != strconv.FormatInt(held, 10) {
		t.Errorf("the bars hold %d bytes, the side says %s", held, text)
	}
}

// pageDrawsQueues looks at pixels: with the queue full there is the stream's
// colour, at the beginning there is not.
func pageDrawsQueues(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	blue := `(() => { const c = document.querySelector(".net"), w = Math.floor(c.width * 0.36);
		const d = c.getContext("2d").getImageData(0, 24, w, 26).data; let n = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i] < 20 && d[i+1] > 95 && d[i+1] < 130 && d[i+2] > 150) n++;
		return n / (w * 26) })()`
	v.open(query("unequal", "t", "0"))
	v.run(chromedp.KeyEvent(kb.Home))
	v.settled()
	begin := read[float64](v, blue)
	v.open(query("unequal", "t", "1"))
	v.settled()
	if full := read[float64](v, blue); full < 0.5 || begin > 0.2 {
		t.Errorf("%.0f%% of the queue is drawn as used at first, %.0f%% later", 100*begin, 100*full)
	}
}

func pageHasKeys(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("unequal", "t", "1"))
	pressed := func() bool {
		return read[string](v, `document.querySelector("#play").getAttribute("aria-pressed")`) == "true"
	}
	if pressed() {
		t.Error("a page opened at a time plays")
	}
	v.run(chromedp.KeyEvent(" "))
	v.until(`document.querySelector("#play").getAttribute("aria-pressed") === "true" && +document.querySelector(".side").dataset.t > 1e9`)
	v.run(chromedp.KeyEvent(" "))
	v.settled()
	for _, c := range []struct {
		name string
		keys []action
		want func(before, now simulate.Time) bool
	}{
		{"right", []action{chromedp.KeyEvent(kb.ArrowRight)}, func(b, n simulate.Time) bool { return n > b && n-b < 10*time.Millisecond }},
		{"shift and right", []action{chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(chromedp.ModifierShift))}, func(b, n simulate.Time) bool { return n-b > 20*time.Millisecond }},
		{"left", []action{chromedp.KeyEvent(kb.ArrowLeft)}, func(b, n simulate.Time) bool { return n < b }},
		{"end", []action{chromedp.KeyEvent(kb.End)}, func(b, n simulate.Time) bool { return n > 3*time.Second }},
		{"event before the end", []action{chromedp.KeyEvent("p")}, func(b, n simulate.Time) bool { return n < b && n > time.Second }},
		{"home", []action{chromedp.KeyEvent(kb.Home)}, func(b, n simulate.Time) bool { return n == 0 }},
		{"next event", []action{chromedp.KeyEvent("n")}, func(b, n simulate.Time) bool { return n > 0 && n < time.Second }},
	} {
		before := v.time()
		v.run(c.keys...)
		v.settled()
		if now := v.time(); !c.want(before, now) {
			t.Errorf("%s: from %s to %s", c.name, before, now)
		}
	}
	speed := `document.querySelector("#speed").selectedOptions[0].text`
	was := read[string](v, speed)
	v.run(chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), chromedp.KeyEvent("-"))
	if now := read[string](v, speed); was != "1/20" || now != "1/10" {
		t.Errorf("the speed was %s and is %s", was, now)
	}
	v.run(chromedp.KeyEvent("?"))
	v.until(`document.querySelector("#help").open`)
	v.run(chromedp.KeyEvent(kb.Escape))
	v.until(`!document.querySelector("#help").open`)
	v.sound()
}

func pageShowsFocus(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("unequal", "t", "1"))
	seen := map[string]bool{}
	for range 40 {
		v.run(chromedp.KeyEvent(kb.Tab))
		x := read[map[string]string](v, `(() => { const e = document.activeElement, s = getComputedStyle(e);
			return {id: e.id || e.className || e.tagName, outline: s.outlineStyle, name: e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent.trim() || e.title} })()`)
		if x["id"] == "BODY" {
			break
		}
		seen[x["id"]] = true
		if x["outline"] == "none" {
			t.Errorf("%s has the focus, and one does not see it", x["id"])
		}
		if x["name"] == "" {
			t.Errorf("%s has no name", x["id"])
		}
	}
	for _, id := range []string{"scenario", "scheduler-a", "scheduler-b", "set-path-fast-rate", "play", "time", "speed", "help-button", "forward"} {
		if !seen[id] {
			t.Errorf("the tabulator key never comes to %s", id)
		}
	}
}

func pageRunsAgain(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("unequal", "a", "lowrtt", "b", "ecf", "t", "1"))
	v.settled()
	before := read[string](v, `document.querySelector(".side").dataset.delivered`)
	v.run(chromedp.Focus("#set-path-fast-rate"), chromedp.KeyEvent(kb.ArrowRight))
	v.until(`document.querySelector(".side").dataset.delivered !== "` + before + `"`)
	v.settled()
	if set := read[string](v, `new URLSearchParams(location.search).get("set")`); set != "path.fast.rate=50 Mbit/s" {
		t.Errorf("the address says %q", set)
	}
	v.compare("a", "unequal", "lowrtt", "path.fast.rate=50 Mbit/s")
	v.compare("b", "unequal", "ecf", "path.fast.rate=50 Mbit/s")
	// another scheduler
	v.run(chromedp.SetValue("#scheduler-b", "daps"), do(`document.querySelector("#scheduler-b").dispatchEvent(new Event("change"))`))
	v.until(`document.querySelector("#figures tbody tr:last-child td").textContent === "daps" && document.querySelector(".sides").getAttribute("aria-busy") === "false"`)
	v.settled()
	v.compare("b", "unequal", "daps", "path.fast.rate=50 Mbit/s")
	v.sound()
}

func pageSaysWhatIsWrong(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("unequal", "set", "path.fast.rate=fast"))
	v.until(`document.querySelector(".side").dataset.t !== undefined`) // the scenario as it is
	if text := read[string](v, `document.querySelector("#problem:not([hidden])").textContent`); !strings.Contains(text, `"fast" is not a rate`) {
		t.Errorf("the page says %q", text)
	}
	v.sound()
	// a run that cannot be, and then one that can
	v.run(do(`const s = document.querySelector("#set-path-fast-rate"); s.dataset.stops = "20 Mbit/s|nonsense"; s.max = 1; s.value = 1; s.dispatchEvent(new Event("input", {bubbles: true}))`))
	v.until(`document.querySelector("#problem").textContent.includes("\"nonsense\" is not a rate")`)
	v.run(do(`const s = document.querySelector("#set-path-fast-rate"); s.value = 0; s.dispatchEvent(new Event("input", {bubbles: true}))`))
	v.until(`document.querySelector("#problem").hidden`)
}

func pageRespectsLessMotion(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base, media("prefers-reduced-motion", "reduce"))
	v.open(query("unequal"))
	v.settled()
	if v.time() != 0 {
		t.Errorf("it plays by itself, to %s", v.time())
	}
	// after the key it plays in steps
	v.run(do(`window.pictures = new Set(); window.begun = performance.now();
		new MutationObserver(() => pictures.add(document.querySelector("#clock").textContent)).observe(document.querySelector("#clock"), {childList: true, characterData: true, subtree: true})`), chromedp.KeyEvent(" "))
	v.until(`pictures.size >= 4`)
	if least := read[float64](v, `(performance.now() - begun) / pictures.size`); least < 300 {
		t.Errorf("a picture every %.0f ms", least)
	}
	other := tab(t, ctx, base)
	other.open(query("unequal"))
	other.until(`+document.querySelector(".side").dataset.t > 0`)
}

func pageIsDark(t *testing.T, ctx context.Context, base string) {
	colours := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		v := tab(t, ctx, base, media("prefers-color-scheme", scheme))
		v.open(query("unequal", "t", "1"))
		colours[scheme] = read[string](v, `getComputedStyle(document.body).backgroundColor`)
		v.sound()
	}
	if colours["light"] != "rgb(251, 251, 249)" || colours["dark"] != "rgb(20, 24, 28)" {
		t.Errorf("backgrounds are %v", colours)
	}
}

func pageAddressIsAMoment(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("blocking", "a", "blest", "b", "", "set", "path.lan.delay=20ms", "t", "2.5"))
	v.settled()
	v.compare("a", "blocking", "blest", "path.lan.delay=20ms")
	if read[bool](v, `getComputedStyle(document.querySelector("[data-side=b] .net")).display !== "none"`) {
		t.Error("there is no second scheduler, but it is drawn")
	}
	v.run(chromedp.KeyEvent(kb.ArrowRight, chromedp.KeyModifiers(chromedp.ModifierShift)))
	v.settled()
	at := v.time()
	v.until(`location.search.includes("t=2.52")`)
	address := read[string](v, `location.href`)
	other := tab(t, ctx, base)
	other.run(chromedp.Navigate(address))
	other.until(`document.querySelector(".side").dataset.t !== undefined`)
	other.settled()
	if other.time() != at {
		t.Errorf("the address %s shows %s, not %s", address, other.time(), at)
	}
	other.compare("a", "blocking", "blest", "path.lan.delay=20ms")
}

func pageComesInParts(t *testing.T, ctx context.Context, base string) {
	v := tab(t, ctx, base)
	v.open(query("mix", "a", "turns", "b", "shortest", "t", "1"))
	v.settled()
	next := read[string](v, `document.querySelector("#more").href`)
	if !strings.Contains(next, "from=") {
		t.Fatalf("120 s are in one part; the next is at %q", next)
	}
	v.run(chromedp.Navigate(next))
	v.until(`document.querySelector(".side").dataset.t !== undefined`)
	v.run(chromedp.KeyEvent(" "), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight))
	v.settled()
	if v.time() < 20*time.Second {
		t.Errorf("the second part begins at %s", v.time())
	}
	v.compare("a", "mix", "turns")
	v.compare("b", "mix", "shortest")
	v.sound()
}
