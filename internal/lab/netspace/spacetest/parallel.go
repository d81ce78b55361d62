package spacetest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Main is TestMain of a package whose tests have namespaces of their own: so many run
// beside each other, because they wait more than they compute. A test that measures
// time or rates does not call t.Parallel, and is alone. -parallel on the command line
// goes before beside.
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
