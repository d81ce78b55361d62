package ability

import (
	"fmt"
	"slices"

	"weft/internal/state"
)

// Explain adds to the failure of a start the one thing that this process lacks.
// Nothing is refused because of it alone: it says why something has failed.
func Explain(err error, pins string) error {
	if err == nil {
		return nil
	}
	if lack := Missing(pins); lack != nil {
		return fmt.Errorf("%w (%w)", lack, err)
	}
	return err
}

// Problems are those of this process with file: errors if weft run could not start,
// warnings if single steps would fail. A thing that no object of desired needs is
// not looked for.
func Problems(file, pins string, desired state.Desired) (problems []state.Problem) {
	lacks := []*Lack{Missing(pins)}
	if needsTun(desired) {
		lacks = append(lacks, MissingTun())
	}
	for _, lack := range lacks {
		if lack == nil {
			continue
		}
		severity := state.Warning
		if lack.Stops {
			severity = state.Error
		}
		problems = append(problems, state.Problem{Severity: severity, Pos: state.Position{File: file}, What: lack.What, Remedy: lack.Remedy})
	}
	return problems
}

func needsTun(desired state.Desired) bool {
	return slices.ContainsFunc(desired, func(o state.Object) bool { _, is := o.(state.Device); return is })
}
