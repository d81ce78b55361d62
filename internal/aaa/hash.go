package aaa

import "golang.org/x/crypto/bcrypt"

// PasswordMatches compares a password with its bcrypt hash. It takes tens of
// milliseconds, on purpose.
func PasswordMatches(hash, password string) bool {
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}
