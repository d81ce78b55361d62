package kernel

import (
	"fmt"

	"weft/internal/store/statefile"
)

// journal stores, per object key, the state before weft changed it.
type journal struct {
	path string
	was  map[string]string
}

func openJournal(path string) (*journal, error) {
	j := &journal{path: path, was: map[string]string{}}
	if _, err := statefile.Read(path, &j.was); err != nil {
		return nil, fmt.Errorf("read journal: %w (it tells weft unload what to put back)", err)
	}
	return j, nil
}

// note records the earlier state, unless an earlier change has recorded it.
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

func (j *journal) save() error { return statefile.Write(j.path, j.was) }
