package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"weft/internal/config"
	"weft/internal/features"
	"weft/internal/version"
)

// manTail are the sections that every command's page ends with.
const manTail = `
# FILES
**/etc/weft/weft.toml**
: the description of the router, weft.toml(5); readable by root only, as it may hold secrets

**/run/weft**
: the socket of the daemon and what must survive its restart, not a reboot

**/var/lib/weft**
: leases, journals and the log of allocations, which survive a reboot

**/sys/fs/bpf/weft**
: the programs and maps in the kernel, which forward without the daemon

# EXIT STATUS
**0**
: the command did what it was asked to

**1**
: it failed, or a check has found errors; standard error says where, why and what to do

**2**
: the command line is wrong
`

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages into DIRECTORY", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return err
			}
			if err := writeManual(cmd.Root(), args[0], date); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(args[0], "weft.toml.5"), filePage(date), 0o644)
		},
	}
}

// sourceDate is the date of the pages: that of SOURCE_DATE_EPOCH, so that equal sources
// make equal pages, or today's.
func sourceDate(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Now(), nil
	}
	var seconds int64
	if _, err := fmt.Sscan(epoch, &seconds); err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s is no number of seconds", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// writeManual writes the page of a command and those of all below it, section 8.
func writeManual(c *cobra.Command, dir string, date time.Time) error {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := writeManual(sub, dir, date); err != nil {
			return err
		}
	}
	var page strings.Builder
	header := &doc.GenManHeader{Title: "WEFT", Section: "8", Source: "weft " + version.String(), Manual: "weft", Date: &date}
	if err := doc.GenMan(c, header, &page); err != nil {
		return err
	}
	more := md2man.Render([]byte("% \"WEFT\" \"8\"\n" + manTail))
	text := beforeSeeAlso(page.String(), string(more))
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".8"
	return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
}

// beforeSeeAlso puts more sections where man-pages(7) has them: before SEE ALSO.
func beforeSeeAlso(page, more string) string {
	_, more, _ = strings.Cut(more, ".SH") // without the head of a page
	more = ".SH" + more
	at := strings.Index(page, ".SH SEE ALSO")
	if at < 0 {
		at = strings.Index(page, ".SH HISTORY")
	}
	if at < 0 {
		return page + more
	}
	return page[:at] + more + page[at:]
}

// filePage is weft.toml(5), of the same text as docs/reference/weft.toml.md.
func filePage(date time.Time) []byte {
	head := fmt.Sprintf("%% \"WEFT.TOML\" \"5\" \"%s\" \"weft %s\" \"weft\"\n", date.Format("Jan 2006"), version.String())
	return md2man.Render([]byte(head + config.ManualPage(features.Sections())))
}
