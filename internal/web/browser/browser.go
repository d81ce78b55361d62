// Package browser opens pages in a headless Chromium, for tests and pictures. It
// is no part of the program.
package browser

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// ErrMissing says that there is no browser here.
var ErrMissing = errors.New("chromium is not installed")

// Find gives the path of a Chromium.
func Find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Start starts one that can reach nothing but this machine. Contexts that
// chromedp.NewContext derives from the one given are its tabs.
func Start(ctx context.Context) (context.Context, context.CancelFunc, error) {
	path, err := Find()
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-dev-shm-usage", true),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root cannot have one
	}
	allocated, stop := chromedp.NewExecAllocator(ctx, options...)
	first, leave := chromedp.NewContext(allocated)
	cancel := func() { leave(); stop() }
	if err := chromedp.Do(first); err != nil {
		cancel()
		return nil, nil, err
	}
	return first, cancel, nil
}
