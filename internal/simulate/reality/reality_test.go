package reality

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"weft/internal/lab/netspace"
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

func TestNetworksOfDeadProcessesAreTakenAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	prefix := fmt.Sprintf("wsweep%dx", os.Getpid())
	dead, own, other := prefix+"4194305-a", fmt.Sprintf("%s%d-a", prefix, os.Getpid()), prefix+"-b" // no process has a number above 2^22
	for _, name := range []string{dead, own, other} {
		s, err := netspace.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = netspace.Delete(name) }) // gone already, if all is well
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep(prefix); err != nil {
		t.Fatal(err)
	}
	left, err := netspace.List(prefix)
	if err != nil || len(left) != 2 || slices.Contains(left, dead) {
		t.Errorf("left are %v (%v)", left, err)
	}
}
