// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// viteReact is what npm create vite@9.3.0 -- --template react makes.
var viteReact = npmTemplate{name: "vite", create: []string{"create-vite@9.3.0", "project", "--template", "react"}}

// TestTheFirstHourWithVite is the first hour of a developer: the template of Vite and React from npm, unchanged,
// sandbar dev --create without another flag, npm install in the sandbox, and a real Chromium with the
// preview. Edits of three files become visible; what breaks is said where it is looked for, in the page
// and by dev, and what is mended is visible again.
func TestTheFirstHourWithVite(t *testing.T) {
	long(t, "it fetches from the npm registry")
	calm(t)
	project, cache := viteReact.made(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	if err := os.CopyFS(s.dir, os.DirFS(project)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	out, notes, stop := s.begin("dev", "web", s.dir, "--create")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("dev said %s\nthe app said %s", notes, out)
		}
	})
	await(t, notes, "web does not stay up")
	await(t, notes, "sandbar exec web -- npm install")
	if said := out.String(); strings.Contains(said, "app-deps") {
		t.Errorf("the image's own Vite runs a project whose packages are not installed: %s", said)
	}
	if said := notes.String(); strings.Contains(said, "is Ready; open it") {
		t.Errorf("dev says that an app can be opened which has not listened yet: %s", said)
	}
	// Sandboxes of this stack reach no registry: npm takes what it has downloaded here.
	s.carry("web", cache, "/sandbar/volume/.sandbar/cache/npm")
	s.must("env", "web", "npm_config_offline=true")
	s.must("exec", "web", "--", "npm", "install")
	awaitAfter(t, notes, strings.LastIndex(notes.String(), "web does not stay up"), "web is Ready; open it with: sandbar open web")
	t.Logf("from dev --create to Ready, with npm install: %v", time.Since(began).Round(time.Millisecond))

	v := &viteHour{s: s, p: newBrowser(t).open(t, strings.TrimSpace(s.must("open", "web", "--print")))}
	const shown = "document.querySelector('h1')?.textContent ?? document.body.innerText"
	until(v.p, shown, "Get started")
	// Again, now that the app is there for the whole of the page.
	console := v.p.console(t)
	v.p.visit(strings.TrimSpace(s.must("open", "web", "--print")))
	until(v.p, shown, "Get started")
	await(t, console, viteConnected)
	v.editThreeFiles(t, console)
	if lines := console.String(); strings.Contains(lines, "error: ") || strings.Contains(lines, "exception: ") {
		t.Errorf("the browser's console has\n%s", lines)
	}
	v.breakTheSource(t, out)
	v.breakTheProcess(t, notes)
	if code := stop(); code != 130 {
		t.Errorf("dev ended with %d", code)
	}
}

// viteConnected is printed by Vite's client in a page once it hears of edits: one between the load of the
// page and that is not shown by it, here as anywhere.
const viteConnected = "[vite] connected."

type viteHour struct {
	s *terminal
	p *tab
}

// heading is the beginning of the page's, two words.
const heading = "document.querySelector('h1')?.textContent.split(' ').slice(0, 2).join(' ')"

// editThreeFiles edits a component and a style sheet, which keep what the page has in memory, and the HTML.
func (v *viteHour) editThreeFiles(t *testing.T, console *screen) {
	t.Helper()
	until(v.p, "document.querySelector('.counter').click(), document.querySelector('.counter').textContent !== 'Count is 0'", true)
	count := eval[string](v.p, "window.survivor = true, document.querySelector('.counter').textContent")
	v.edit(t, "src/App.jsx", "Get started", "Edited %s", heading, "Edited %s")
	v.edit(t, "src/App.css", ".counter {", ".counter { --edited: e%s;",
		"getComputedStyle(document.querySelector('.counter')).getPropertyValue('--edited').trim()", "e%s")
	if kept := eval[string](v.p, "String(window.survivor) + document.querySelector('.counter').textContent"); kept != "true"+count {
		t.Errorf("after the edits of a component and a style the page has %q, and had %q: it was loaded again", kept, count)
	}
	before := len(console.String())
	v.edit(t, "index.html", "<title>", "<title>Edited %s ", "document.title.split(' ').slice(0, 2).join(' ')", "Edited %s")
	awaitAfter(t, console, before, viteConnected)
}

// breakTheSource saves what does not parse: the page and the log say where. The mended file is visible.
func (v *viteHour) breakTheSource(t *testing.T, out *screen) {
	t.Helper()
	whole := v.read("src/App.jsx")
	v.s.write("src/App.jsx", strings.Replace(whole, "<h1>", "<h1", 1))
	until(v.p, "document.querySelector('vite-error-overlay')?.shadowRoot.textContent.includes('src/App.jsx') ?? false", true)
	v.p.screenshot("vite-broken")
	await(t, out, "src/App.jsx")
	v.s.write("src/App.jsx", whole)
	until(v.p, "document.querySelector('vite-error-overlay') === null", true)
	v.edit(t, "src/App.jsx", "Edited", "Mended %s", heading, "Mended %s")
}

// breakTheProcess saves a configuration with which Vite ends: dev says that the app does not stay up, with
// its last lines. The mended one is visible, without a visit of the page.
func (v *viteHour) breakTheProcess(t *testing.T, notes *screen) {
	t.Helper()
	whole, before := v.read("vite.config.js"), len(notes.String())
	v.s.write("vite.config.js", "console.error('the plugin is ' + 'broken')\nprocess.exit(3)\n")
	awaitAfter(t, notes, before, "web does not stay up")
	awaitAfter(t, notes, before, "  | the plugin is broken")
	before = len(notes.String())
	v.s.write("vite.config.js", whole)
	awaitAfter(t, notes, before, "web is Ready; ")
	v.edit(t, "src/App.jsx", "Mended", "Alive %s", heading, "Alive %s")
	v.p.screenshot("vite-mended")
}

// edit replaces a text of a file, and waits until the page shows what has become of it. A %s is a text
// that no edit before had. Vite's watcher on a busy machine may miss one change of several, so it is
// saved again, with another text, until the page shows it.
func (v *viteHour) edit(t *testing.T, file, from, to, expression, want string) {
	t.Helper()
	whole := v.read(file)
	if !strings.Contains(whole, from) {
		t.Fatalf("%s has no %q", file, from)
	}
	eventually(t, file+" is visible", func() error {
		mark := randomHex(4)
		v.s.write(file, strings.Replace(whole, from, fmt.Sprintf(to, mark), 1))
		return poll(t.Context(), 30*time.Second, func() error {
			got, err := try[string](v.p, "String("+expression+")")
			if err == nil && got != fmt.Sprintf(want, mark) {
				err = errors.New("the page has " + got)
			}
			return err
		})
	})
}

func (v *viteHour) read(file string) string {
	v.s.t.Helper()
	text, err := os.ReadFile(filepath.Join(v.s.dir, file))
	if err != nil {
		v.s.t.Fatal(err)
	}
	return string(text)
}
