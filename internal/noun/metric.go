package noun

import (
	"context"
	"strings"
)

// Type is what a metric is to Prometheus.
type Type uint8

const (
	Gauge   Type = iota
	Counter      // it only rises while weft runs
)

// Definition is what is known of a metric without a row.
type Definition struct {
	Name, Help string
	Type       Type
	Labels     []string
}

// Metric is a metric that a noun's rows make. Values with the same labels are added up; with Max
// the largest of them counts.
type Metric[R any] struct {
	Definition
	Max bool
	Of  func(r R, put func(value float64, labels ...string))
}

// Put takes a value of a metric.
type Put func(metric string, value float64, labels ...string)

// sums are the values of one metric, by their labels.
type sums struct {
	values map[string]float64
	labels map[string][]string
	order  []string
}

func (s *sums) add(value float64, largest bool, labels []string) {
	key := strings.Join(labels, "\xff")
	was, there := s.values[key]
	if !there {
		s.labels[key] = labels
		s.order = append(s.order, key)
	}
	if largest {
		s.values[key] = max(was, value)
	} else {
		s.values[key] = was + value
	}
}

func (o Of[S, R]) measure(ctx context.Context, source any, q *Query, put Put) error {
	if len(o.Metrics) == 0 {
		return nil
	}
	all := map[string]*sums{}
	for _, m := range o.Metrics {
		all[m.Name] = &sums{values: map[string]float64{}, labels: map[string][]string{}}
	}
	if from, ok := source.(S); ok && o.Zeroes != nil {
		o.Zeroes(ctx, from, func(metric string, value float64, labels ...string) { all[metric].add(value, false, labels) })
	}
	for r, err := range o.each(ctx, source, q) {
		if err != nil {
			return err
		}
		for _, m := range o.Metrics {
			m.Of(r, func(value float64, labels ...string) { all[m.Name].add(value, m.Max, labels) })
		}
	}
	for _, m := range o.Metrics {
		s := all[m.Name]
		for _, key := range s.order {
			put(m.Name, s.values[key], s.labels[key]...)
		}
	}
	return nil
}

// NewGauge and NewCounter declare metrics.
func NewGauge[R any](name, help string, labels []string, of func(r R, put func(value float64, labels ...string))) Metric[R] {
	return Metric[R]{Definition: Definition{Name: name, Help: help, Labels: labels}, Of: of}
}

func NewCounter[R any](name, help string, labels []string, of func(r R, put func(value float64, labels ...string))) Metric[R] {
	return Metric[R]{Definition: Definition{Name: name, Help: help, Type: Counter, Labels: labels}, Of: of}
}

// Largest is m of which the largest value counts.
func Largest[R any](m Metric[R]) Metric[R] {
	m.Max = true
	return m
}

// Truth is a truth as a metric.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
