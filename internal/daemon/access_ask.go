package daemon

import (
	"time"

	"weft/internal/feature/access"
)

// Ask finds out who a subscriber is.
func (s *subscribers) Ask(q access.Question) {
	s.tasks.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.engine.Answer(q, access.Verdict{Text: "Login incorrect"}, time.Now())
	})
}
