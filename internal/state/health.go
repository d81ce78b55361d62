package state

// Condition is how something is doing.
type Condition string

// The conditions, from good to bad.
const (
	Working    Condition = "working"
	Degraded   Condition = "degraded"    // part of it does not work
	NotWorking Condition = "not working" // it does nothing
)

// Health is how one feature, or one of its instances, is doing.
type Health struct {
	Feature   string    `json:"feature"`
	Name      string    `json:"name"` // of the section or interface; empty: the feature as a whole
	Condition Condition `json:"condition"`
	Because   string    `json:"because,omitempty"`
	Remedy    string    `json:"remedy,omitempty"`
}

// HealthOf is the health of what has a fault, or none.
func HealthOf(feature, name string, fault error, remedy string) Health {
	h := Health{Feature: feature, Name: name, Condition: Working}
	if fault != nil {
		h.Condition, h.Because, h.Remedy = Degraded, fault.Error(), remedy
	}
	return h
}
