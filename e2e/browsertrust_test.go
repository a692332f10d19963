// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestABrowserTrustsTheDataPlane: with the first command of sandbar trust --browsers a person's Chromium
// opens a preview, and with the second it does not any more.
func TestABrowserTrustsTheDataPlane(t *testing.T) {
	long(t, "it starts two browsers of its own")
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	box.deploy(callAs(t, tn.token), "hello")
	s := newTerminal(t, tn)
	s.must("trust", "--yes")
	commands := commandsFor(t, s.must("trust", "--browsers"), "Chromium")
	home := t.TempDir()
	shell := func(command string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", command)
		cmd.Env = append(cmd.Environ(), "HOME="+home)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	shell(commands[0])
	trusting := newBrowserOf(t, home).open(t, strings.TrimSpace(s.must("open", "web", "--print")))
	until(trusting, "document.body.textContent.includes('hello')", true)

	shell(commands[1])
	err := limited(newBrowserOf(t, home).ctx, func(ctx context.Context) error {
		_, err := chromedp.Run(ctx, chromedp.Navigate(strings.TrimSpace(s.must("open", "web", "--print"))))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "ERR_CERT_AUTHORITY_INVALID") {
		t.Errorf("afterwards: %v", err)
	}
}

// commandsFor are the command that adds a CA, and the one that removes it, of a place where browsers look
// for CAs.
func commandsFor(t *testing.T, said, place string) [2]string {
	t.Helper()
	lines := strings.Split(said, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "# "+place) && i+3 < len(lines) {
			return [2]string{lines[i+1], lines[i+3]}
		}
	}
	t.Fatalf("there is no %s in\n%s", place, said)
	return [2]string{}
}
