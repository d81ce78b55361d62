package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Applier puts configurations in force.
type Applier interface {
	// Apply puts a configuration in force, on trial if it has a time.
	Apply(context.Context, Change) (Applied, error)
	// Confirm makes the configuration on trial the lasting one. session is that of
	// who asks, as in Change.
	Confirm(ctx context.Context, session string) (Confirmed, error)
}

// Change is a configuration to put in force.
type Change struct {
	Name    string // of its file
	Text    string
	Within  time.Duration // in which it must be confirmed; 0: it lasts at once
	Session string        // SSH_CONNECTION of who asks, empty at a console
}

// Applied says what became of a change.
type Applied struct {
	File    string    `json:"file"`              // that weft run reads
	Was     string    `json:"was"`               // what was in force before
	Until   time.Time `json:"until,omitzero"`    // when it is taken back
	Refused []string  `json:"refused,omitempty"` // why it is not in force
}

// Confirmed is the configuration that lasts from now on.
type Confirmed struct {
	File string `json:"file"` // that weft run reads, and that is to hold Text
	Text string `json:"text"`
}

// largestFile bounds a configuration that the socket takes.
const largestFile = 64 << 20

func serveApplier(mux *http.ServeMux, a Applier) {
	mux.HandleFunc("POST /v1/apply", func(w http.ResponseWriter, q *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, q.Body, largestFile))
		query := q.URL.Query()
		within, noNumber := strconv.Atoi(query.Get("seconds"))
		if err != nil || noNumber != nil {
			http.Error(w, "no configuration, or no number of seconds", http.StatusBadRequest)
			return
		}
		applied, err := a.Apply(q.Context(), Change{query.Get("name"), string(text), time.Duration(within) * time.Second, query.Get("session")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, applied)
	})
	mux.HandleFunc("POST /v1/confirm", func(w http.ResponseWriter, q *http.Request) {
		confirmed, err := a.Confirm(q.Context(), q.URL.Query().Get("session"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, confirmed)
	})
}

// Apply asks the daemon to put a configuration in force.
func Apply(ctx context.Context, socket string, c Change) (a Applied, err error) {
	query := url.Values{"name": {c.Name}, "seconds": {strconv.Itoa(int(c.Within / time.Second))}, "session": {c.Session}}
	return a, request(ctx, http.MethodPost, socket, "/v1/apply?"+query.Encode(), strings.NewReader(c.Text), reading(&a))
}

// Confirm asks the daemon to keep the configuration on trial.
func Confirm(ctx context.Context, socket, session string) (c Confirmed, err error) {
	return c, request(ctx, http.MethodPost, socket, "/v1/confirm?"+url.Values{"session": {session}}.Encode(), nil, reading(&c))
}
