// Command testreport runs go test, shows what it says in go test's own words,
// and ends with what was skipped and why:
//
//	testreport [GO TEST FLAGS] PACKAGES
//
// The last line is "N passed, N failed, N skipped". The status is 1 when a test
// failed, and also when one was skipped that this machine could have run: a
// skip needs a reason that holds here (reasons.go).
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: testreport [GO TEST FLAGS] PACKAGES")
		os.Exit(2)
	}
	r := newReport(os.Stdout)
	ended, err := goTest(os.Args[1:], r.event)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !r.close(ended == nil, reasons(machine{})) {
		os.Exit(1)
	}
}

// goTest runs go test -json and hands on what it prints, line by line. ended
// is how the command itself ended; err tells that it could not be run or read.
func goTest(args []string, line func([]byte) error) (ended, err error) {
	c := exec.Command("go", append([]string{"test", "-json", "-count=1", "-timeout=40m"}, args...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("run go test: %w", err)
	}
	if err := eachLine(out, line); err != nil {
		return nil, fmt.Errorf("read what go test prints: %w", err)
	}
	return c.Wait(), nil
}

func eachLine(in io.Reader, line func([]byte) error) error {
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			if err := line(text); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
