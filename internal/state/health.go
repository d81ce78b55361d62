package state

import "slices"

// Condition is the state of a feature.
type Condition string

// The conditions, from good to bad.
const (
	Working    Condition = "working"
	Degraded   Condition = "degraded"    // part of it does not work
	NotWorking Condition = "not working" // it does nothing
)

// Health is the condition of one feature, or of one of its instances.
type Health struct {
	Feature   string    `json:"feature"`
	Name      string    `json:"name"` // of the section or interface; empty: the feature as a whole
	Condition Condition `json:"condition"`
	Because   string    `json:"because,omitempty"`
	Remedy    string    `json:"remedy,omitempty"`
}

// String is the health in one line.
func (h Health) String() string {
	s := h.Feature
	if h.Name != "" {
		s += "." + h.Name
	}
	s += " " + string(h.Condition)
	if h.Because != "" {
		s += ": " + h.Because
	}
	if h.Remedy != "" {
		s += " (" + h.Remedy + ")"
	}
	return s
}

// Faults are the lines that are not "working".
func Faults(list []Health) []Health {
	return slices.DeleteFunc(slices.Clone(list), func(h Health) bool { return h.Condition == Working })
}

// HealthOf is the health of a feature with a fault, or without one.
func HealthOf(feature, name string, fault error, remedy string) Health {
	h := Health{Feature: feature, Name: name, Condition: Working}
	if fault != nil {
		h.Condition, h.Because, h.Remedy = Degraded, fault.Error(), remedy
	}
	return h
}
