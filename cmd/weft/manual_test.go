package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/internal/features"
)

// The manual names every command, section and key, and each page ends as man-pages(7) asks.
func TestTheManualIsWhole(t *testing.T) {
	dir := t.TempDir()
	date := time.Unix(1, 0)
	if err := writeManual(rootCommand(), dir, date); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.8"))
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		last := -1
		for _, section := range []string{".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH FILES", ".SH EXIT STATUS"} {
			at := strings.Index(string(text), section+"\n")
			if at <= last {
				t.Errorf("%s: %q is not there, or not in its place", filepath.Base(page), section)
			}
			last = at
		}
		if at := strings.Index(string(text), ".SH SEE ALSO"); at >= 0 && at < last {
			t.Errorf("%s: SEE ALSO is not last", filepath.Base(page))
		}
	}

	text := string(filePage(date))
	plain := strings.NewReplacer(`\fB`, "", `\fP`, "", `\&`, "", `\-`, "-", `\_`, "_").Replace(text)
	for _, s := range features.Sections() {
		if !strings.Contains(plain, ".SH ["+s.Name) {
			t.Errorf("weft.toml(5) does not name the section %s", s.Name)
		}
	}
	for _, key := range []string{"fair_share", "walled_garden", "rx_session", "pref64", "early_drop", "sessions_per_subscriber"} {
		if !strings.Contains(plain, key) {
			t.Errorf("weft.toml(5) does not name the key %s", key)
		}
	}
	if other := string(filePage(date)); other != text {
		t.Error("the page differs from run to run")
	}
}

func TestTheDateOfTheManual(t *testing.T) {
	if d, err := sourceDate("86400"); err != nil || d.Year() != 1970 || d.Day() != 2 {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := sourceDate("soon"); err == nil {
		t.Error("a word is taken for a number of seconds")
	}
}
