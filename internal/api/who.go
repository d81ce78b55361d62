package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// WhoQuery asks who had a port of a shared address.
type WhoQuery struct {
	IPv4     netip.AddrPort
	Protocol uint8 // of IPv4; 0: all
	At       time.Time
}

// Holder is a row of `weft show who`.
type Holder struct {
	Translator string         `json:"translator"`
	Protocol   string         `json:"protocol"`
	IPv4       netip.AddrPort `json:"ipv4"`
	IPv6       string         `json:"ipv6"` // the node's address and port; where ports are fixed, the subscriber's prefix
	From       *time.Time     `json:"from,omitempty"`
	Until      *time.Time     `json:"until,omitempty"` // not there: not known to have ended
	Note       string         `json:"note,omitempty"`
}

// Collector is one that is told of allocations (allocation_syslog).
type Collector struct {
	Address    string
	Sent, Lost uint64
	Waiting    int
	Reached    bool
}

// ErrNoAllocations says that there is no log to ask.
var ErrNoAllocations = errors.New("no translator keeps a log of allocations: see allocation_log in weft.toml")

func answerWho(s Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := parseWho(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rows, err := s.Who(q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(rows) // the caller may have gone
	}
}

func parseWho(v url.Values) (q WhoQuery, err error) {
	if q.IPv4, err = netip.ParseAddrPort(v.Get("ipv4")); err != nil {
		return q, err
	}
	protocol, err := strconv.ParseUint(v.Get("protocol"), 10, 8)
	if err != nil {
		return q, err
	}
	q.Protocol = uint8(protocol)
	q.At, err = time.Parse(time.RFC3339Nano, v.Get("at"))
	return q, err
}

// AskWho asks the daemon at a socket.
func AskWho(ctx context.Context, socket string, q WhoQuery) (rows []Holder, err error) {
	v := url.Values{"ipv4": {q.IPv4.String()}, "protocol": {strconv.Itoa(int(q.Protocol))}, "at": {q.At.Format(time.RFC3339Nano)}}
	err = AskPath(ctx, socket, "/v1/who?"+v.Encode(), &rows)
	return rows, err
}
