package probe

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/internal/lab/probe"
)

// probeAttack sends frames that should not get far; probeWatch writes down
// which of them it sees; probeSeen says whether those were the right ones.
func attackCommand() *cobra.Command {
	var aims []string
	var label, source, borrow, asked string
	var only, without []string
	repeat, pause := 1, 20*time.Millisecond
	c := &cobra.Command{Use: "attack DEVICE", Short: "Send frames that should not come through", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&label, "label", "", "who sends")
	c.Flags().StringVar(&source, "source", "", "the sender's link address")
	c.Flags().StringVar(&borrow, "borrow", "02:00:00:00:00:fe", "the link address of another host")
	c.Flags().StringVar(&asked, "asked", "198.51.100.1", "an address of the router's on another link")
	c.Flags().StringSliceVar(&aims, "aim", nil, "stations, as NAME=MAC")
	c.Flags().StringSliceVar(&only, "only", nil, "these frames alone")
	c.Flags().StringSliceVar(&without, "without", nil, "all frames but these")
	c.Flags().IntVar(&repeat, "repeat", repeat, "how often each is sent")
	c.Flags().DurationVar(&pause, "pause", pause, "after each frame")
	c.RunE = func(c *cobra.Command, args []string) error {
		a := probe.Attack{Label: label, Aims: map[string]net.HardwareAddr{}}
		var err error
		if a.Source, err = net.ParseMAC(source); err != nil {
			return err
		}
		if a.Borrow, err = net.ParseMAC(borrow); err != nil {
			return err
		}
		if a.Asked, err = netip.ParseAddr(asked); err != nil {
			return err
		}
		for _, aim := range aims {
			name, text, _ := strings.Cut(aim, "=")
			if a.Aims[name], err = net.ParseMAC(text); err != nil {
				return err
			}
		}
		tries := slices.DeleteFunc(a.Tries(), func(t probe.Try) bool {
			return len(only) > 0 && !slices.Contains(only, t.Name) || slices.Contains(without, t.Name)
		})
		if repeat < 1 || repeat > 10000 {
			return fmt.Errorf("send each frame %d times: want 1 to 10000", repeat)
		}
		n, err := probe.Send(c.Context(), args[0], slices.Repeat(tries, repeat), pause)
		if err == nil {
			time.Sleep(200 * time.Millisecond) // for the last to arrive, in a guest that is emulated
			fmt.Fprintf(c.OutOrStdout(), "sent %d frames\n", n)
		}
		return err
	}
	return c
}

func watchCommand() *cobra.Command {
	var from string
	c := &cobra.Command{Use: "watch DEVICE FILE", Short: "Write down which marked frames arrive", Args: cobra.ExactArgs(2)}
	c.Flags().StringVar(&from, "from", "", "also frames with this source address")
	c.RunE = func(c *cobra.Command, args []string) error {
		var watched net.HardwareAddr
		if from != "" {
			var err error
			if watched, err = net.ParseMAC(from); err != nil {
				return err
			}
		}
		f, err := os.OpenFile(args[1]+".new", os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		ready := func() { err = os.Rename(args[1]+".new", args[1]) }
		if failed := probe.Watch(ctx, args[0], watched, ready, func(line string) { fmt.Fprintln(f, line) }); failed != nil {
			return failed
		}
		return err
	}
	return c
}

// arrival is how long frames may take that have to be there: in a guest that is
// emulated, on a machine that is busy.
const arrival = 5 * time.Second

func seenCommand() *cobra.Command {
	var label, count string
	var must, may []string
	c := &cobra.Command{Use: "seen FILE", Short: "Say whether the right marked frames arrived", Args: cobra.ExactArgs(1)}
	c.Flags().StringVar(&label, "label", "", "who sent them")
	c.Flags().StringSliceVar(&must, "must", nil, "frames that have to be there")
	c.Flags().StringSliceVar(&may, "may", nil, "frames that may be there; no others")
	c.Flags().StringVar(&count, "count", "", "how often one of them may be there, as NAME=LEAST-MOST")
	c.RunE = func(c *cobra.Command, args []string) error {
		bounds, err := parseBounds(count)
		if err != nil {
			return err
		}
		var faults []string
		for end := time.Now().Add(arrival); ; time.Sleep(50 * time.Millisecond) {
			seen, err := sightings(args[0], label)
			if err != nil {
				return err
			}
			var wait bool
			if faults, wait = bounds.judge(seen, must, may); !wait || time.Now().After(end) {
				break
			}
		}
		if len(faults) > 0 {
			slices.Sort(faults)
			return fmt.Errorf("of %s: %s", label, strings.Join(faults, ", "))
		}
		fmt.Fprintf(c.OutOrStdout(), "of %s: %d permitted frames, and no other\n", label, len(must))
		return nil
	}
	return c
}

// sightings counts the recorded frames with a label.
func sightings(file, label string) (map[string]int, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	seen := map[string]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		who, what, _ := strings.Cut(lines.Text(), " ")
		if who == label {
			seen[what]++
		}
	}
	return seen, lines.Err()
}

// bounds is how often a frame may be there.
type bounds struct {
	name        string
	least, most int
}

func parseBounds(text string) (b bounds, err error) {
	if text == "" {
		return b, nil
	}
	name, numbers, _ := strings.Cut(text, "=")
	if n, _ := fmt.Sscanf(numbers, "%d-%d", &b.least, &b.most); n != 2 || name == "" || b.most < b.least {
		return b, fmt.Errorf("count %q: want NAME=LEAST-MOST", text)
	}
	b.name = name
	return b, nil
}

// judge returns what is wrong, and whether that may come right in a while.
func (b bounds) judge(seen map[string]int, must, may []string) (faults []string, wait bool) {
	for _, name := range must {
		if seen[name] == 0 {
			faults, wait = append(faults, name+" did not arrive"), true
		}
	}
	if n := seen[b.name]; b.name != "" && (n < b.least || n > b.most) {
		faults, wait = append(faults, fmt.Sprintf("%s arrived %d times, not %d to %d", b.name, n, b.least, b.most)), wait || n < b.least
	}
	for name := range seen {
		if name != b.name && !slices.Contains(must, name) && !slices.Contains(may, name) {
			faults, wait = append(faults, name+" came through"), false
		}
	}
	return faults, wait
}
