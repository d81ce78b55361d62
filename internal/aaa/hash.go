package aaa

import (
	"golang.org/x/crypto/bcrypt"

	"weft/internal/feature/access"
)

// Compare decides about a subscriber of whom the hash of the password is known.
func Compare(q access.Question) access.Verdict {
	if bcrypt.CompareHashAndPassword([]byte(q.Hash), []byte(q.Password)) != nil {
		return access.Verdict{Text: "Login incorrect"}
	}
	return access.Verdict{Accept: true, Text: "Welcome", Profile: *q.Profile}
}
