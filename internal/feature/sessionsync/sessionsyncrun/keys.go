package sessionsyncrun

import (
	"weft/internal/bus"
	"weft/internal/config"
	"weft/internal/feature/sessionsync"
	"weft/internal/state"
)

func keysOf(c *sessionsync.Config) bus.Keys {
	return bus.Keys{CA: c.CA, Certificate: c.Certificate, Key: c.Key, PasswordFile: c.PasswordFile, User: c.User, CredentialsFile: c.Credentials}
}

// Check looks at the files that f names, as far as this process may read
// them. They are warnings: a file may be meant for another machine, and a
// router forwards without what only its peers need.
func Check(f *config.File) (problems []state.Problem) {
	c := sessionsync.From(f)
	if c == nil {
		return nil
	}
	for _, fault := range keysOf(c).Faults() {
		path := "session_sync." + fault.Key
		problems = append(problems, state.Problem{
			Severity: state.Warning, Pos: f.Position(path), Path: path, What: fault.What,
			Remedy: "sessions are not synchronised until weft can read it; see docs/features/session-sync.md",
		})
	}
	state.SortProblems(problems)
	return problems
}
