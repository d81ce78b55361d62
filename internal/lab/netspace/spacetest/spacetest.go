// Package spacetest gives tests network namespaces of their own. Without root such a
// test is skipped with a message; with root, a missing requirement makes it fail.
package spacetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"weft/internal/lab/netspace"
)

// NeedRoot skips a test that is not run by root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// made numbers the namespaces of this process.
var made atomic.Int32

// New makes a namespace that is removed after the test, with every process in it.
// part distinguishes it from others of the test.
func New(t testing.TB, part string) *netspace.Space {
	t.Helper()
	NeedRoot(t)
	s, err := netspace.Create(fmt.Sprintf("wefttest%d-%d-%s", os.Getpid(), made.Add(1), part))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := netspace.Stop(context.Background(), 2*time.Second, s)
		if err := errors.Join(err, s.Close(), netspace.Delete(s.Name)); err != nil {
			t.Error(err)
		}
	})
	return s
}
