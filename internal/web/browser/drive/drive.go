// Package drive opens tabs of a headless Chromium and looks into them, for tests
// and pictures.
package drive

import (
	"context"

	"github.com/chromedp/chromedp"

	"weft/internal/web/browser"
)

// Start starts a browser. Contexts that chromedp.NewContext derives from the one
// given are its tabs.
func Start(ctx context.Context) (context.Context, context.CancelFunc, error) {
	path, err := browser.Find()
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	for name, value := range browser.Flags() {
		if value == "" {
			options = append(options, chromedp.Flag(name, true))
		} else {
			options = append(options, chromedp.Flag(name, value))
		}
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
