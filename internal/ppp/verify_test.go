package ppp

import (
	"strings"
	"testing"

	"weft/wire/ppp"
)

func TestCredentialsAreComparedWithAPassword(t *testing.T) {
	challenge, peer := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	nt, err := ppp.MSCHAPv2NT(challenge, peer, "alice", "secret")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Credentials{
		"PAP":       {Method: MethodPAP, Login: "alice", Password: "secret"},
		"CHAP":      {Method: MethodCHAP, Login: "alice", ID: 7, Challenge: challenge, Response: ppp.CHAPDigest(7, []byte("secret"), challenge)},
		"MS-CHAPv2": {Method: MethodMSCHAPv2, Login: "alice", Challenge: challenge, Response: ppp.MSCHAPv2Response{PeerChallenge: peer, NTResponse: nt}.Marshal()},
	} {
		ok, text := c.Verify("secret")
		if !ok || text == "" {
			t.Errorf("%s: the right password is refused (%q)", name, text)
		}
		if strings.HasPrefix(text, "S=") != (name == "MS-CHAPv2") {
			t.Errorf("%s: the message is %q", name, text)
		}
		if ok, _ := c.Verify("Secret"); ok {
			t.Errorf("%s: a wrong password is accepted", name)
		}
		c.Response, c.Password = c.Response[:max(len(c.Response), 1)-1], ""
		if ok, _ := c.Verify("secret"); ok {
			t.Errorf("%s: a response that is cut is accepted", name)
		}
	}
	if ok, _ := (Credentials{Login: "alice"}).Verify(""); ok {
		t.Error("no method at all is accepted")
	}
}
