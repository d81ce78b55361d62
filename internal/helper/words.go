package helper

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

const (
	mostLines = 100 // of a process that are logged
	mostLine  = 500 // bytes of one
	mostStack = 8 << 10
)

// words is what a process writes to its standard error: lines for the log, and
// what it ends with if that is a panic.
type words struct {
	log func(string)

	mu    sync.Mutex
	rest  []byte
	lines int
	panic strings.Builder // from its first line on
}

// Write implements io.Writer.
func (w *words) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, text...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole && len(w.rest) < mostLine {
			return len(text), nil
		}
		w.take(string(line[:min(len(line), mostLine)]))
		w.rest = append(w.rest[:0], rest...)
	}
}

// take handles a line. The caller has the lock.
func (w *words) take(line string) {
	begins := strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "runtime: ")
	if begins || w.panic.Len() > 0 {
		if w.panic.Len() < mostStack {
			w.panic.WriteString(line + "\n")
		}
		return
	}
	if w.lines++; w.lines <= mostLines && strings.TrimSpace(line) != "" {
		w.log(line)
	}
}

// explain adds the panic to how a process has ended, and logs where it was.
func (w *words) explain(err error) error {
	w.mu.Lock()
	stack := w.panic.String()
	w.mu.Unlock()
	first, _, _ := strings.Cut(stack, "\n")
	if first == "" {
		return err
	}
	w.log(stack)
	return fmt.Errorf("%w: %s", err, first)
}
