// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser is a real browser without a window, with a profile of its own.
type browser struct{ ctx context.Context }

// newBrowser starts a browser. It trusts the stack's certificate, which no browser has a reason to.
func newBrowser(t *testing.T) browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("no-sandbox", os.Geteuid() == 0), // Chromium's own cannot be had as root
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("ignore-certificate-errors", true),
		chromedp.WindowSize(1000, 600),
	)
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
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
func until[T comparable](p *tab, deadline time.Duration, expression string, want T) {
	p.t.Helper()
	eventually(p.t, deadline, expression, func() error {
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
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600)
	}
	if err != nil {
		p.t.Errorf("taking a picture: %v", err)
	}
}
