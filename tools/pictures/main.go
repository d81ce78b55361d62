// Command pictures takes the pictures of pages that docs/ shows, with a headless
// Chromium. What a picture shows is decided by its address; only the fonts of
// the machine make a difference.
//
//	go run ./tools/pictures docs/guides
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"weft/internal/simulate/watch"
	"weft/internal/web"
	"weft/internal/web/browser/drive"
)

// picture is a file, and what is on it.
type picture struct {
	file          string
	query         string
	width, height int64
	dark, phone   bool
}

func pictures() []picture {
	return []picture{
		{file: "watch.webp", query: "scenario=chunks&a=lowrtt&b=ecf&t=3.02", width: 1400, height: 980},
		{file: "watch-dark.webp", query: "scenario=fifty&a=turns&b=shortest&t=1.2", width: 1400, height: 1020, dark: true},
		{file: "watch-phone.webp", query: "scenario=blocking&a=lowrtt&b=blest&t=9.2", width: 390, height: 844, phone: true},
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/pictures FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := take(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func take(ctx context.Context, folder string) error {
	server, err := watch.New(watch.Options{Limits: watch.DefaultLimits(), Runs: 1})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := web.Listen(ctx, "127.0.0.1:0", false)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, listener, web.Guard(server, false)) }()
	tabs, leave, err := drive.Start(ctx)
	if err != nil {
		return err
	}
	for _, p := range pictures() {
		image, err := shoot(tabs, listener.Addr(), p)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, p.file), image, 0o644)
		}
		if err != nil {
			leave()
			return fmt.Errorf("take %s: %w", p.file, err)
		}
		fmt.Printf("%s: %d bytes\n", p.file, len(image))
	}
	leave()
	cancel()
	return errors.Join(<-ended)
}

// shoot returns one picture as WebP.
func shoot(tabs context.Context, at net.Addr, p picture) ([]byte, error) {
	tab, leave := chromedp.NewContext(tabs)
	defer leave()
	scheme, scale, quality := "light", 1.0, int64(70)
	if p.dark {
		scheme = "dark"
	}
	if p.phone {
		scale = 1.5
	}
	screen := emulation.SetDeviceMetricsOverrideParams{Width: p.width, Height: p.height, DeviceScaleFactor: scale, Mobile: p.phone}
	if _, err := chromedp.Call(tab, emulation.SetDeviceMetricsOverride, screen); err != nil {
		return nil, err
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, media); err != nil {
		return nil, err
	}
	// a phone has no room for what stands above
	scroll := chromedp.Steps()
	if p.phone {
		scroll = chromedp.Evaluate[chromedp.Void](`document.querySelector(".side").scrollIntoView()`)
	}
	ready := `document.querySelector(".sides").getAttribute("aria-busy") === "false" && document.querySelector(".side").dataset.t > 0`
	if err := chromedp.Do(tab, chromedp.Navigate("http://"+at.String()+"/?"+p.query), chromedp.Poll[chromedp.Void](ready), scroll); err != nil {
		return nil, err
	}
	shot, err := chromedp.Call(tab, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
	return shot.Data, err
}
