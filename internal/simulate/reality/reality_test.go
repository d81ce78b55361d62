package reality

import (
	"fmt"
	"os"
	"testing"
	"time"
)

var unequal = []Shape{
	{Rate: 20e6, Delay: 10 * time.Millisecond, Queue: 100_000},
	{Rate: 5e6, Delay: 50 * time.Millisecond, Queue: 100_000},
}

func TestTheKernelMovesDataOverBothLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	n, err := Build(t.Context(), fmt.Sprintf("wsim%d", os.Getpid()), unequal)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	sizes := []int64{10_000_000, 30_000, 100_000, 300_000, 1_000_000}
	real, err := n.Transfer(t.Context(), sizes, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	predicted, err := Predict(t.Context(), unequal, sizes, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sizes {
		t.Logf("%d bytes: kernel %s, simulator %s, error %+.1f%%", sizes[i], real[i], predicted[i], 100*(float64(predicted[i])/float64(real[i])-1))
	}
	// faster than the fast link alone could be: both were used
	if least := 10_000_000 * 8 * time.Second / 20_000_000; real[0] >= least {
		t.Errorf("10 MB took %s, the fast link alone needs %s", real[0], least)
	}
}
