package spacetest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Main is TestMain of a package whose tests have namespaces of their own: up to
// beside of them run in parallel, because they mostly wait. A test that measures
// time or rates does not call t.Parallel, and runs alone. -parallel on the command
// line overrides beside.
func Main(m *testing.M, beside int) {
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
