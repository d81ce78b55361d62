package api

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"weft/internal/feature/lns"
	"weft/internal/subscriber"
)

// Subscribers takes orders for sessions.
type Subscribers interface {
	Disconnect(context.Context, subscriber.Match) int
	Capture(ctx context.Context, order lns.CaptureOrder, w io.Writer) error
}

// Kicked says how many sessions were ended.
type Kicked struct {
	Sessions int `json:"sessions"`
}

func serveSubscribers(mux *http.ServeMux, s Subscribers) {
	mux.HandleFunc("GET /v1/capture", serveCapture(s))
	mux.HandleFunc("POST /v1/kick", func(w http.ResponseWriter, q *http.Request) {
		writeJSON(w, Kicked{s.Disconnect(q.Context(), lns.MatchOf(q.URL.Query().Get("who")))})
	})
}

// Kick ends sessions.
func Kick(ctx context.Context, socket, who string) (Kicked, error) {
	var k Kicked
	return k, request(ctx, http.MethodPost, socket, "/v1/kick?who="+url.QueryEscape(who), nil, reading(&k))
}
