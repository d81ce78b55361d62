package ppp

import (
	"crypto/hmac"

	"weft/wire/ppp"
)

// Verify compares credentials with a password that is known. text is the message of the
// acceptance: with MS-CHAPv2 it proves that this end knows the password too (RFC 2759
// section 5).
func (c Credentials) Verify(password string) (ok bool, text string) {
	switch c.Method {
	case MethodPAP:
		ok = hmac.Equal([]byte(c.Password), []byte(password))
	case MethodCHAP:
		ok = ppp.CHAPValid(c.ID, []byte(password), c.Challenge, c.Response)
	case MethodMSCHAPv2:
		r, err := ppp.ParseMSCHAPv2(c.Response)
		if err != nil {
			return false, ""
		}
		want, err := ppp.MSCHAPv2NT(c.Challenge, r.PeerChallenge, c.Login, password)
		if err != nil || !hmac.Equal(want, r.NTResponse) {
			return false, ""
		}
		proof, err := ppp.MSCHAPv2Authenticator(c.Challenge, r.PeerChallenge, r.NTResponse, c.Login, password)
		return err == nil, proof + " M=Welcome"
	}
	return ok, "Welcome"
}
