package api

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"weft/internal/mutator"
	"weft/internal/noun"
)

// TestMutatedHTTP is what reaches the port of metrics.
func TestMutatedHTTP(t *testing.T) {
	seeds := [][]byte{
		[]byte("GET /metrics HTTP/1.1\r\nHost: router\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1\r\nAccept-Encoding: gzip\r\n\r\n"),
		[]byte("POST /metrics HTTP/1.1\r\nHost: router\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
		[]byte("GET /../metrics?x=%41&name[]=go HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n\r\n"),
	}
	mutator.Run(t, mutator.Parser{Name: "http", Seeds: seeds, Beside: true, New: func(*rand.Rand) mutator.Machine {
		h := metricsHandler(newCollector(Registry{Nouns: []noun.Noun{rowsNoun("rows")}, Source: func(string) any { return counted(3) }}))
		return mutator.Machine{Receive: func(b []byte) {
			if request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b))); err == nil {
				h.ServeHTTP(httptest.NewRecorder(), request)
			}
		}}
	}})
}
