// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser is a real browser without a window, with a profile of its own.
type browser struct{ ctx context.Context }

// newBrowser starts a browser of a person who has made it trust the stack's CA, as docs/previews.md says.
func newBrowser(t *testing.T) browser {
	t.Helper()
	return newBrowserOf(t, trustingHome(t))
}

// trustingHome is the home of a person whose browsers trust the stack's CA, and others.
func trustingHome(t *testing.T, others ...string) string {
	t.Helper()
	home := t.TempDir()
	store := filepath.Join(home, ".pki", "nssdb")
	if err := os.MkdirAll(store, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, file := range append(others, world.CAFile) {
		add := exec.CommandContext(t.Context(), "certutil", "-d", "sql:"+store, "-A", "-t", "C,,", "-n", fmt.Sprint("stack", i), "-i", file)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("making a browser trust the stack's CA (Debian's package libnss3-tools): %v: %s", err, out)
		}
	}
	return home
}

// newBrowserOf starts the browser of the person whose home it is. It trusts what this person trusts.
func newBrowserOf(t *testing.T, home string, further ...chromedp.ExecAllocatorOption) browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("no-sandbox", os.Geteuid() == 0), // Chromium's own cannot be had as root
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Env("HOME="+home),
		chromedp.WindowSize(1000, 600),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(options, further...)...)
	t.Cleanup(cancel)
	ctx, cancelTab := chromedp.NewContext(ctx)
	// Waits until the browser has ended, so that its profile can be removed.
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancelTab()
	})
	if _, err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("starting the browser (Debian's package chromium): %v", err)
	}
	return browser{ctx}
}

// tab is a tab of a browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// open opens a tab with a URL.
func (b browser) open(t *testing.T, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	// The tab lives as long as the context of what is first done in it.
	if _, err := chromedp.Run(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	p := &tab{t, ctx}
	p.visit(url)
	return p
}

// on is the same tab in a subtest.
func (p *tab) on(t *testing.T) *tab { return &tab{t, p.ctx} }

func (p *tab) visit(url string) {
	p.t.Helper()
	if err := limited(p.ctx, func(ctx context.Context) error {
		_, err := chromedp.Run(ctx, chromedp.Navigate(url))
		return err
	}); err != nil {
		p.t.Fatalf("opening a page: %v", err)
	}
}

// eval evaluates an expression in the page; a promise is waited for.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	got, err := try[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

func try[T any](p *tab, expression string) (got T, err error) {
	err = limited(p.ctx, func(ctx context.Context) (err error) {
		got, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
		return err
	})
	return got, err
}

// until waits until an expression has a value in the page.
func until[T comparable](p *tab, expression string, want T) {
	p.t.Helper()
	eventually(p.t, expression, func() error {
		got, err := try[T](p, expression)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("it is %v, not %v", got, want)
		}
		return nil
	})
}

// limited bounds what a page may take to answer.
func limited(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the browser did not answer within a minute"))
	defer cancel()
	return do(ctx)
}

// screenshot keeps a picture of the tab in the folder that SCREENSHOTS names, if any.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := limited(p.ctx, func(ctx context.Context) error {
		picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}); err != nil {
		p.t.Errorf("taking a picture: %v", err)
	}
}

// terminalPicture keeps a picture of what a program has written on a terminal, as screenshot does. The
// command line writes plain text, and no colours.
func (b browser) terminalPicture(t *testing.T, name, text string) {
	t.Helper()
	if os.Getenv("SCREENSHOTS") == "" {
		return
	}
	page := `<!doctype html><meta charset="utf-8"><style>body{margin:0;background:#1b1d23}` +
		`pre{margin:0;padding:1.2rem 1.5rem;color:#e4e6eb;font:15px/1.45 monospace;white-space:pre-wrap;overflow-wrap:anywhere}</style>` +
		`<pre>` + html.EscapeString(text) + `</pre>`
	p := b.open(t, "data:text/html;base64,"+base64.StdEncoding.EncodeToString([]byte(page)))
	height := eval[int64](p, "document.querySelector('pre').offsetHeight")
	if err := limited(p.ctx, func(ctx context.Context) error {
		_, err := chromedp.Run(ctx, chromedp.EmulateViewport(1000, height))
		return err
	}); err != nil {
		t.Fatalf("sizing the picture: %v", err)
	}
	p.screenshot(name)
}

// console is what the browser's console shows of the tab from now on, a message a line with its type.
func (p *tab) console(t *testing.T) *screen {
	t.Helper()
	lines := &screen{}
	messages := chromedp.Console(p.ctx)
	go func() {
		for message, err := range messages {
			if err != nil {
				return // the tab has ended
			}
			fmt.Fprintln(lines, message)
		}
	}()
	return lines
}
