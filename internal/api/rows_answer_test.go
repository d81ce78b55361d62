package api

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestRowsAreWrittenOneByOneAndReadAsAnArray(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5000} {
		want := []Subscriber{}
		for i := range n {
			s := Subscriber{Drops: map[string]uint64{}}
			s.Login, s.Session = fmt.Sprintf("s%d", i), uint16(i)
			want = append(want, s)
		}
		w := httptest.NewRecorder()
		answerRows(func() iter.Seq[Subscriber] { return slices.Values(want) })(w, nil)
		var got []Subscriber
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%d rows: %v", n, err)
		}
		if got == nil || len(got) != n || n > 0 && (got[n-1].Login != want[n-1].Login || got[0].Session != 0) {
			t.Errorf("%d rows became %d", n, len(got))
		}
	}
}
