package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weft/internal/web/browser"
)

func TestThePageIsMeasured(t *testing.T) {
	v, err := Measurer{}.Measure(t.Context(), frame, Weft)
	if errors.Is(err, browser.ErrMissing) {
		t.Skip(err)
	}
	if err != nil || v <= 0 {
		t.Errorf("%f ms, %v", v, err)
	}
}

func TestThePercentileIsOfThePicturesOfAFullPage(t *testing.T) {
	times := make([]string, 200)
	for i := range times {
		times[i] = fmt.Sprint((i * 37) % 200) // 0 to 199, in no order
	}
	text := func(streams int, times []string) []byte {
		return fmt.Appendf(nil, `{"streams":%d,"paths":4,"times":[%s]}`, streams, strings.Join(times, ","))
	}
	if v, err := percentile(text(50, times)); err != nil || v != 190 {
		t.Errorf("%f, %v", v, err)
	}
	for _, bad := range [][]byte{text(49, times), text(50, times[:99]), []byte("{")} {
		if v, err := percentile(bad); err == nil {
			t.Errorf("%s gives %f", bad, v)
		}
	}
}
