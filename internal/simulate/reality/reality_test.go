package reality

import (
	"fmt"
	"os"
	"testing"
)

func TestTheKernelMovesDataOverBothLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	n, err := Build(t.Context(), fmt.Sprintf("wsim%d", os.Getpid()), Unequal())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	sizes := []int64{2_000_000, 30_000}
	if _, err := n.Transfer(t.Context(), sizes, 0); err != nil {
		t.Fatal(err)
	}
	for i := range Unequal() {
		if b := n.Carried(i); b < 100_000 {
			t.Errorf("link %d carried only %d bytes", i, b)
		}
	}
	if sum := n.Carried(0) + n.Carried(1); sum < 2_030_000 {
		t.Errorf("the links carried %d bytes together", sum)
	}
	predicted, err := Predict(t.Context(), Unequal(), sizes, 0)
	if err != nil || len(predicted) != len(sizes) || predicted[0] <= predicted[1] {
		t.Errorf("predicted %v (%v)", predicted, err)
	}
}
