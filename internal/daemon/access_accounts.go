package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"weft/internal/aaa"
	"weft/internal/feature/access"
	"weft/internal/keep"
)

// accountKey is where the store has accounts that no RADIUS server had taken when
// the process before ended: a section's NAME and a number follow.
const accountKey = "account/"

// leaveAccounts writes what waits, for the next process. Nobody works any more.
func (s *subscribers) leaveAccounts() {
	var changes []keep.Change
	for name, client := range s.accounts.clients {
		for i, one := range client.Leave() {
			if one.Account.Kind == access.AccountInterim {
				continue // of that the next says more
			}
			value, err := json.Marshal(one)
			if err != nil {
				s.log.Error("a session's account is lost", "login", one.Account.Login, "session", one.Account.ID, "error", err)
				continue
			}
			changes = append(changes, keep.Change{Key: fmt.Appendf(nil, "%s%s/%d", accountKey, name, i), Value: value})
		}
	}
	if len(changes) == 0 {
		return
	}
	if err := s.store.Apply(changes); err != nil {
		s.log.Error("accounts that no RADIUS server has taken are lost", "error", err)
	}
}

// resumeAccounts tells what the process before could not. The lock is held.
func (s *subscribers) resumeAccounts(ctx context.Context, kept []access.Stored) {
	var gone []keep.Change
	for _, k := range kept {
		gone = append(gone, keep.Change{Key: []byte(k.Key)})
		name, _, _ := strings.Cut(strings.TrimPrefix(k.Key, accountKey), "/")
		var one aaa.Book
		err := json.Unmarshal(k.Value, &one)
		if err == nil && one.Account == nil {
			err = errors.New("there is none in what was kept")
		}
		if err != nil {
			s.log.Error("an account of the process before is lost", "access", name, "error", err)
			continue
		}
		if client := s.accounts.clients[name]; client != nil {
			client.Account(ctx, one.Account, one.Total)
		}
	}
	if len(gone) == 0 {
		return
	}
	if err := s.store.Apply(gone); err != nil {
		s.log.Error("accounts of the process before are told again at the next start", "error", err)
	}
}
