package watch

import (
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weft/internal/simulate/scenario"
	"weft/internal/web"
	"weft/schedule"
)

//go:embed page.html
var pageText string

type pageTemplate = *template.Template

func newPage() (pageTemplate, error) {
	return web.Page(pageText, template.FuncMap{"side": func(side, label, now string, groups []schedulerGroup) sideData {
		return sideData{side, label, now, groups}
	}})
}

// sideData is what one half of the page is made of.
type sideData struct {
	Side, Label, Now string
	Groups           []schedulerGroup
}

// pageData is what the page is made of.
type pageData struct {
	Scenario   string
	Title      string
	About      string
	Menu       []menuEntry
	Schedulers []schedulerGroup
	A, B       string // schedulers; B may be empty
	Groups     []parameterGroup
	Problem    string // instead of the scenario that was asked for
	From       string // where the window begins
	Measure    bool
}

type menuEntry struct{ Name, Title string }

type schedulerGroup struct {
	Title string
	Names []string
}

type parameterGroup struct {
	Title      string
	Parameters []Parameter
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name, set := s.Scenario, q["set"]
	if given := q.Get("scenario"); given != "" {
		name = given
	} else if len(q) == 0 {
		set = s.Set
	}
	d := pageData{From: q.Get("from"), Measure: s.Measured != nil && q.Has("measure")}
	loaded, err := s.changed(name, set)
	if err != nil {
		d.Problem = err.Error()
		if loaded, err = s.changed(s.Scenario, nil); err != nil { // the file was changed meanwhile
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		name = s.Scenario
	}
	d.Scenario, d.Title, d.About = name, loaded.Spec.General.Title, strings.TrimSpace(loaded.Spec.General.About)
	if d.Title == "" {
		d.Title = loaded.Name
	}
	if d.Menu, err = s.menu(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	d.A, d.B = s.pair(loaded, q.Get("a"), q.Get("b"), q.Has("b"), name == s.Scenario)
	d.Schedulers = schedulers(d.A, d.B)
	base, err := s.load(name, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	d.Groups = groups(Parameters(loaded), Parameters(base))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	s.fault(notGone(s.page.Execute(w, d)))
}

// pair returns the schedulers to show: those asked for, those of the command line
// for its scenario, or the scenario's own and the one that it is mostly compared
// with.
func (s *Server) pair(loaded *scenario.Scenario, a, b string, bGiven, own bool) (string, string) {
	if _, err := schedule.New(a); a != "" && err == nil {
		if _, err := schedule.New(b); err != nil {
			b = ""
		}
		return a, b
	}
	if own && len(s.Schedulers) > 0 {
		return s.Schedulers[0], strings.Join(s.Schedulers[1:], "")
	}
	a = loaded.Setup.Scheduler
	other := map[string]string{"blocking": "blest", "reorder": "daps", "mix": "shortest", "fifty": "shortest+ecf"}[loaded.Name]
	if other == "" {
		other = "ecf"
	}
	if a == other {
		other = "lowrtt"
	}
	return a, other
}

func (s *Server) menu() ([]menuEntry, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	var menu []menuEntry
	for _, n := range names {
		title := n
		if loaded, err := s.load(n, nil); err == nil && loaded.Spec.General.Title != "" {
			title = loaded.Spec.General.Title
		}
		menu = append(menu, menuEntry{n, title})
	}
	return menu, nil
}

// schedulers lists those to choose from; the two that are shown are among them.
func schedulers(shown ...string) []schedulerGroup {
	list := []schedulerGroup{
		{"choose the path", schedule.Routers()},
		{"choose the stream", schedule.Orders()},
		{"both", []string{"fifo+ecf", "shortest+ecf", "shortest+blest", "fair+ecf", "priority+ecf"}},
	}
	for _, name := range shown {
		if name != "" && !slices.ContainsFunc(list, func(g schedulerGroup) bool { return slices.Contains(g.Names, name) }) {
			list[2].Names = append(list[2].Names, name)
		}
	}
	return list
}

// groups puts together what belongs to one path or source; base are the same
// parameters of the scenario as it is written.
func groups(all, base []Parameter) []parameterGroup {
	var list []parameterGroup
	for _, p := range all {
		for _, b := range base {
			if b.Key == p.Key {
				p.Base = b.Value()
			}
		}
		if n := len(list); n == 0 || list[n-1].Title != p.Group {
			list = append(list, parameterGroup{Title: p.Group})
		}
		g := &list[len(list)-1]
		g.Parameters = append(g.Parameters, p)
	}
	return list
}

// ID names the control of a parameter within the page.
func (p Parameter) ID() string { return "set-" + strings.ReplaceAll(p.Key, ".", "-") }

// LastText is Last for an attribute.
func (p Parameter) LastText() string { return strconv.Itoa(p.Last()) }
