package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// journal remembers, per object key, what was there before weft changed it.
type journal struct {
	path string
	was  map[string]string
}

func openJournal(path string) (*journal, error) {
	j := &journal{path: path, was: map[string]string{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if err := json.Unmarshal(text, &j.was); err != nil {
		return nil, fmt.Errorf("read journal %s: %w (it tells weft unload what to put back; if it cannot be repaired, remove it)", path, err)
	}
	return j, nil
}

// note records what was there, unless an earlier change has recorded it.
func (j *journal) note(key, was string) error {
	if _, known := j.was[key]; known {
		return nil
	}
	j.was[key] = was
	return j.save()
}

func (j *journal) forget(key string) error {
	if _, known := j.was[key]; !known {
		return nil
	}
	delete(j.was, key)
	return j.save()
}

// save replaces the file in one step, so that a crash leaves the old or the new one.
func (j *journal) save() error {
	text, err := json.MarshalIndent(j.was, "", "  ")
	if err != nil {
		return err
	}
	draft := j.path + ".new"
	if err := os.WriteFile(draft, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return os.Rename(draft, j.path)
}
