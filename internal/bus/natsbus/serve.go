package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weft/internal/bus"
	"weft/internal/helper"
	"weft/internal/task"
)

// served is what weft-bus has for weft.
type served struct {
	log   *slog.Logger
	bus   *Bus
	tasks task.Tasks
	asked task.Wake // for how far readers are behind
}

// Serve does what weft asks for until weft closes the line.
func Serve(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &served{log: log, asked: task.NewWake()}
	err := helper.Serve(ctx, bus.Program, s.handle)
	cancel()
	if s.bus != nil {
		s.bus.Close()
	}
	s.tasks.Wait()
	return err
}

var errOrder = errors.New("weft does not begin with its settings")

func (s *served) handle(ctx context.Context, l *helper.Line, m helper.Message) error {
	if (s.bus == nil) != (m.Kind == bus.KindStart) {
		return errOrder
	}
	switch m.Kind {
	case bus.KindStart:
		var settings bus.Settings
		if err := json.Unmarshal(m.Data, &settings); err != nil {
			return fmt.Errorf("read the settings: %w", err)
		}
		s.bus = Open(ctx, settings, s.log)
		s.tasks.Again("events", func() { s.pass(ctx, l) })
		s.tasks.Again("status", func() { s.report(ctx, l) })
	case bus.KindPublish:
		err := s.bus.Publish(m.Data)
		if err != nil && !errors.Is(err, bus.ErrClosed) { // weft knows that it is closed, or will in a moment
			return l.Send(ctx, helper.Message{Kind: bus.KindUnsent, Data: []byte(err.Error())})
		}
	case bus.KindAsk:
		if err := s.bus.Ask(string(m.Data)); err != nil {
			s.log.Debug("request to a peer", "error", err) // weft asks again
		}
	case bus.KindMeasure:
		s.bus.Behind()
		s.asked.Set()
	}
	return nil
}

// pass sends the events.
func (s *served) pass(ctx context.Context, l *helper.Line) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-s.bus.Events():
			m, err := bus.EventMessage(e)
			if err == nil {
				err = l.Send(ctx, m)
			}
			if err != nil && ctx.Err() == nil {
				s.log.Error("event for weft", "error", err)
			}
		}
	}
}

// statusEvery is how often the status is sent.
const statusEvery = time.Second

// report sends the status, and while weft asks for it how far readers are behind.
func (s *served) report(ctx context.Context, l *helper.Line) {
	status, measure := time.NewTicker(statusEvery), time.NewTicker(measureEvery)
	defer status.Stop()
	defer measure.Stop()
	var until time.Time
	for {
		var m helper.Message
		select {
		case <-ctx.Done():
			return
		case <-s.asked:
			until = time.Now().Add(askedFor)
			continue
		case now := <-measure.C:
			if now.After(until) {
				continue
			}
			m = bus.BehindMessage(s.bus.behind())
		case <-status.C:
			var err error
			if m, err = bus.StatusMessage(s.bus.Status(ctx)); err != nil {
				return
			}
		}
		if l.Send(ctx, m) != nil {
			return
		}
	}
}
