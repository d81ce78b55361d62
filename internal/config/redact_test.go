package config

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestSecretsAreRemovedFromAnyText(t *testing.T) {
	const m = "MARKER"
	for name, c := range map[string]struct{ text, want string }{
		"a string":               {"secret = \"MARKER\"\nname = \"x\"", "secret = \"removed\"\nname = \"x\""},
		"a literal string":       {"password = 'MARKER'", `password = "removed"`},
		"no spaces":              {`rx_cookie="MARKER",mtu=7`, `rx_cookie="removed",mtu=7`},
		"a quoted key":           {`"secret" = "MARKER"`, `"secret" = "removed"`},
		"a dotted key":           {`lns.isp.secret = "MARKER"`, `lns.isp.secret = "removed"`},
		"an escaped quote":       {`secret = "a\"MARKER" # MARKER`, `secret = "removed" `},
		"an inline table":        {`lacs = [{ address = "192.0.2.1", secret = "MARKER" }, { secret = "MARKER" }]`, `lacs = [{ address = "192.0.2.1", secret = "removed" }, { secret = "removed" }]`},
		"many lines":             {"secret = \"\"\"\nMARKER\n\"MARKER\n\"\"\"\nmtu = 7", "secret = \"removed\"\nmtu = 7"},
		"a list":                 {"secrets = [\n\"MARKER\", # one\n'MARKER]',\n]\nmtu = 7", "secrets = \"removed\"\nmtu = 7"},
		"a number":               {"tx_cookie = 0xMARKER # why\nmtu = 7", "tx_cookie = \"removed\"# why\nmtu = 7"},
		"a comment":              {"# secret = \"MARKER\"\nmtu = 7 # MARKER", "\nmtu = 7 "},
		"a # in a string":        {`secret = "a#MARKER"`, `secret = "removed"`},
		"a misspelt key":         {`pasword = "MARKER"` + "\n" + `passwrod = "MARKER"`, ""},
		"no equals sign":         {"secret \"MARKER\"\nmtu = 7", "\nmtu = 7"},
		"a colon":                {"secret: MARKER\nmtu = 7", "\nmtu = 7"},
		"an open string":         {"secret = \"MARKER\nmtu = 7", "secret = \"removed\"\nmtu = 7"},
		"an open string before":  {"name = \"x\nsecret = \"MARKER\"", "name = \"x\nsecret = \"removed\""},
		"an open text before":    {"name = \"\"\"x\nsecret = \"MARKER\"", "name = "},
		"an open list":           {"secrets = [\"MARKER\"", "secrets = \"removed\""},
		"nothing behind the key": {"secret =", "secret =\"removed\""},
		"no secret":              {"bypass = true\npass = \"MARKER\"", "bypass = true\npass = \"removed\""},
		"a value called so":      {`mode = "secret"`, `mode = "secret"`},
	} {
		got, secrets := Redact([]byte(c.text))
		if bytes.Contains(got, []byte(m)) {
			t.Errorf("%s: %q is left in %q", name, m, got)
		}
		want := strings.ReplaceAll(c.want, "# why", "")
		if c.want != "" && string(got) != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if strings.Contains(c.want, Redacted) && strings.Contains(c.text, m) && !slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(s, m) }) {
			t.Errorf("%s: the secrets are %q", name, secrets)
		}
	}
}

// No text makes it fail, and no value of a secret key stays.
func FuzzRedact(f *testing.F) {
	f.Add([]byte("secret = \"x\"\n[lns.isp]\nlacs = [{ secret = 'y' }] # z"))
	f.Add([]byte("password = \"\"\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("\n")) && bytes.Contains(text, []byte("MARKER")) {
			return
		}
		got, _ := Redact(text)
		if len(got) > 10*len(text)+100 {
			t.Errorf("%d bytes of %d", len(got), len(text))
		}
		line := append(append([]byte{}, text...), []byte("\nsecret = \"MARKER\"\n")...)
		if got, _ := Redact(line); bytes.Contains(got, []byte("MARKER")) {
			t.Errorf("the secret is left in %q", got)
		}
	})
}
