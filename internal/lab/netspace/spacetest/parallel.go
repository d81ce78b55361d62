package spacetest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// beside is how many tests of a package run beside each other, where each has
// namespaces of its own: they wait more than they compute. A test that measures time
// or rates does not call t.Parallel, and is alone.
const beside = 3

// Main is TestMain of a package whose tests have namespaces of their own. -parallel
// on the command line goes before its bound.
func Main(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(max(beside, runtime.GOMAXPROCS(0)))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
