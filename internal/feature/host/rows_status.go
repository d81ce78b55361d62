package host

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"weft/internal/noun"
	"weft/internal/state"
)

// Status is what weft show status shows: which daemon answers.
type Status struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	File    string    `json:"file"`
	Started time.Time `json:"started"`
	Applied time.Time `json:"applied"` // when the configuration that is in force was read
	Refused *Refusal  `json:"refused"` // nil: it is the file's, as it was read last
	// Steps is how many changes this process has made in kernel and datapath to apply its
	// configuration.
	Steps int `json:"steps"`
	// Faults are the lines of weft show health that are not "working".
	Faults []state.Health `json:"faults"`
}

// Refusal says why a reload changed nothing.
type Refusal struct {
	At  time.Time `json:"at"`
	Why []string  `json:"why"`
}

// StatusSource is the daemon itself.
type StatusSource interface {
	Status(ctx context.Context) Status
}

func status() noun.Noun {
	return noun.Of[StatusSource, Status]{
		Name: "status", Short: "Which weft runs, and which configuration is in force", From: noun.Daemon, One: true,
		Long: `The program, since when it runs, and when the configuration that is in force was
read, and what does not work. If the last reload was refused, the configuration
in force is older than the file, and the reasons are listed. The daemon knows
all this, so weft run must be running.`,
		Rows: func(ctx context.Context, s StatusSource, _ *noun.Query) iter.Seq2[Status, error] {
			return noun.Row(s.Status(ctx), nil)
		},
		Page: func(w io.Writer, rows []Status) {
			for _, s := range rows {
				s.print(w)
			}
		},
		Metrics: []noun.Metric[Status]{
			noun.NewGauge("weft_info", "Version of weft.", []string{"version"}, func(s Status, put func(float64, ...string)) { put(1, s.Version) }),
			noun.NewGauge("weft_reload_refused", "1 while the last reload was refused, and the configuration in force is an older one.", nil,
				func(s Status, put func(float64, ...string)) { put(noun.Truth(s.Refused != nil)) }),
		},
	}.Noun()
}

func (s Status) print(w io.Writer) {
	fmt.Fprintf(w, "weft\t%s, process %d\n", s.Version, s.PID)
	fmt.Fprintf(w, "runs\tfor %s\n", noun.Age(s.Started))
	fmt.Fprintf(w, "file\t%s\n", s.File)
	fmt.Fprintf(w, "configuration\tas it was read %s, %s ago\n", s.Applied.Format(time.DateTime), noun.Age(s.Applied))
	fmt.Fprintf(w, "changes\t%d in kernel and programs' tables since it runs\n", s.Steps)
	if len(s.Faults) == 0 {
		fmt.Fprintln(w, "health\teverything works")
	}
	for i, h := range s.Faults {
		fmt.Fprintf(w, "%s\t%s\n", []string{"health", ""}[min(i, 1)], h)
	}
	if s.Refused == nil {
		return
	}
	fmt.Fprintf(w, "reload\trefused %s, %s ago: the file is not what is in force\n", s.Refused.At.Format(time.DateTime), noun.Age(s.Refused.At))
	for _, why := range s.Refused.Why {
		fmt.Fprintf(w, "\t%s\n", why)
	}
}
