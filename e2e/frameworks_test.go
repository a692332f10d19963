// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// framework is a row of docs/frameworks.md, tried.
type framework struct {
	// project makes the project in the folder, and returns what install needs in the sandbox.
	project func(t *testing.T, dir string) (carried string)
	// install prepares the dependencies, which carried has in carriedTo of the sandbox.
	carriedTo string
	env       []string
	install   []string
	// dev are the flags that docs/frameworks.md has for it.
	dev []string
	// path is the page, which shows the text from file.
	path, file, text string
	// hot is what the browser's console says when edits appear without the page being loaded again; empty if
	// they do not. An edit before that is missed. quiet is set where the console says nothing of it.
	hot   string
	quiet bool
	// more is what else the page says. p may be taken elsewhere.
	more func(t *testing.T, s *terminal, p *tab, notes *screen)
	// form is the id of a form of the page, and answer a text of the page that follows it.
	form, answer string
}

// npmInstall is a project of npm, installed as docs/frameworks.md says.
func npmInstall(m npmTemplate, f framework) framework {
	f.project = func(t *testing.T, dir string) string {
		project, cache := m.made(t)
		if err := os.CopyFS(dir, os.DirFS(project)); err != nil {
			t.Fatal(err)
		}
		return cache
	}
	f.carriedTo, f.env, f.install = "/sandbar/volume/.sandbar/cache/npm", []string{"npm_config_offline=true"}, []string{"npm", "install"}
	return f
}

// fromDebian is a project of Python whose packages are Debian's: they take the place of what pip installs, since
// this machine may reach no registry of pip's.
func fromDebian(packages []string, write func(t *testing.T, dir, site string), f framework) framework {
	f.project = func(t *testing.T, dir string) string {
		root := kept(t, packages[0], strings.Join(packages, " "), func(dir string) error {
			download := exec.CommandContext(t.Context(), "apt-get", append([]string{"download", "-qq"}, packages...)...)
			download.Dir = dir
			if out, err := download.CombinedOutput(); err != nil {
				return fmt.Errorf("apt-get download: %w\n%s", err, out)
			}
			archives, err := filepath.Glob(filepath.Join(dir, "*.deb"))
			for _, archive := range archives {
				err = errors.Join(err, exec.CommandContext(t.Context(), "dpkg-deb", "-x", archive, dir).Run(), os.Remove(archive))
			}
			return err
		})
		site := filepath.Join(root, "usr", "lib", "python3", "dist-packages")
		write(t, dir, site)
		return site
	}
	f.carriedTo = "/workspace/.venv/lib/python3.11/site-packages"
	f.install = []string{"python3", "-m", "venv", ".venv"}
	return f
}

// serverFrameworks are those that need nothing of npm's registry.
func serverFrameworks(t *testing.T) map[string]framework {
	t.Helper()
	all := map[string]framework{
		"django": fromDebian([]string{"python3-django", "python3-asgiref", "python3-sqlparse", "python3-tz"}, makeDjango, framework{
			dev: []string{
				"--toolchain", "python", "--start-command",
				". .venv/bin/activate && python manage.py migrate && exec python manage.py runserver 0.0.0.0:$PORT",
			},
			path: "/admin/login/", file: "mysite/urls.py", text: "Site of the first edit", form: "login-form", answer: "correct username and password",
		}),
		"fastapi": fromDebian([]string{
			"python3-fastapi", "python3-asgiref", "python3-starlette", "python3-pydantic", "python3-uvicorn", "python3-click", "python3-h11", "python3-anyio",
			"python3-sniffio", "python3-idna", "python3-typing-extensions", "python3-websockets", "python3-wsproto",
		}, makeFastAPI, framework{
			dev: []string{
				"--toolchain", "python", "--start-command",
				". .venv/bin/activate && exec python -m uvicorn main:app --host 0.0.0.0 --port $PORT --reload",
			},
			path: "/", file: "main.py", text: "Hello from FastAPI", form: "form", answer: "received",
		}),
		"go": {
			project: makeGo, dev: []string{"--toolchain", "go", "--restart", "auto"},
			path: "/", file: "main.go", text: "Hello from Go", form: "form", answer: "received", more: goBroken,
		},
	}
	maps.Copy(all, socketFrameworks(t))
	return all
}

// TestFrameworksOfNPM tries what docs/frameworks.md says of each framework: its own template, the settings of the
// page, an edit that a real Chromium shows, and nothing wrong in the browser's console.
func TestFrameworksOfNPM(t *testing.T) {
	long(t, "it fetches from the npm registry and builds for each framework")
	calm(t)
	all := npmFrameworks(t)
	maps.Copy(all, bundlerFrameworks(t))
	for name, f := range all {
		t.Run(name, f.try)
	}
}

// TestFrameworksOfServers is TestFrameworksOfNPM for Python, Ruby and Go. One of each runs at a time: both build.
func TestFrameworksOfServers(t *testing.T) {
	long(t, "it builds for each framework")
	calm(t)
	for name, f := range serverFrameworks(t) {
		t.Run(name, f.try)
	}
}

func (f framework) try(t *testing.T) {
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	carried := f.project(t, s.dir)
	out, notes, stop := s.begin(append([]string{"dev", "web", s.dir, "--create"}, f.dev...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("dev said %s\nthe app said %s", notes, out)
		}
	})
	since := 0
	if f.install != nil {
		await(t, notes, "web does not stay up")
		since = strings.LastIndex(notes.String(), "web does not stay up")
		if len(f.env) > 0 {
			s.must(append([]string{"env", "web"}, f.env...)...)
		}
		s.carry("web", carried, f.carriedTo)
		s.must(append([]string{"exec", "web", "--"}, f.install...)...)
	}
	awaitAfter(t, notes, since, "web is Ready; ")
	const shown = "document.body.innerText"
	p := newBrowser(t).open(t, strings.TrimSpace(s.must("open", "web", "--print", "--path", f.path)))
	until(p, shown+".includes("+fmt.Sprintf("%q", f.text)+")", true)
	link := strings.TrimSpace(s.must("open", "web", "--print", "--path", f.path))
	console := p.console(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the browser's console has\n%s", console)
		}
	})
	p.visit(link)
	until(p, shown+".includes("+fmt.Sprintf("%q", f.text)+") && document.readyState === 'complete'", true)
	await(t, console, f.hot)
	eval[bool](p, "window.survivor = true")
	f.edit(t, s, p)
	if survived := eval[bool](p, "window.survivor === true"); f.isHot() && !survived {
		t.Error("the edit was shown by loading the page again")
	}
	if f.form != "" {
		eval[bool](p, fmt.Sprintf("document.getElementById(%q).querySelectorAll('input:not([type=hidden],[type=submit])').forEach(i => i.value = 'x'), document.getElementById(%[1]q).submit(), true", f.form))
		until(p, shown+".includes("+fmt.Sprintf("%q", f.answer)+")", true)
	}
	lines := console.String()
	if !f.isHot() { // the page was loaded while the app was started again
		lines = whileStarting.ReplaceAllString(lines, "")
	}
	if strings.Contains(lines, "error: ") || strings.Contains(lines, "exception: ") {
		t.Errorf("the browser's console has\n%s", lines)
	}
	p.screenshot("framework-" + filepath.Base(t.Name()))
	if f.more != nil {
		f.more(t, s, p, notes)
	}
	t.Logf("the console: %s\nthe volume: %s", console, s.must("exec", "web", "--", "sh", "-c", "df -h /workspace | tail -1; du -sh .; du -sh /sandbar/volume/.sandbar/cache; cat /sys/fs/cgroup/memory.peak; true"))
	if code := stop(); code != 130 {
		t.Errorf("dev ended with %d", code)
	}
}

// whileStarting is what a browser's console has of a page, and of its WebSocket, whose app is being started again.
var whileStarting = regexp.MustCompile(`error: (Failed to load resource: the server responded with a status of|WebSocket connection to .* failed: .* Unexpected response code:) 502\b`)

func (f framework) isHot() bool { return f.hot != "" || f.quiet }

// edit saves another text until the page shows it; one without hot reloading is loaded again.
func (f framework) edit(t *testing.T, s *terminal, p *tab) {
	t.Helper()
	whole, err := os.ReadFile(filepath.Join(s.dir, f.file))
	if err != nil {
		t.Fatal(err)
	}
	here, err := url.Parse(eval[string](p, "location.href"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, f.file+" is visible", func() error {
		mark := "Edited " + randomHex(4)
		began := time.Now()
		s.write(f.file, strings.Replace(string(whole), f.text, mark, 1))
		err := poll(t.Context(), time.Minute, func() error {
			if !f.isHot() {
				p.visit(here.String())
			}
			got, err := try[string](p, "document.body.innerText")
			if err == nil && !strings.Contains(got, mark) {
				err = errors.New("the page has " + got)
			}
			return err
		})
		t.Logf("from save to visible: %v", time.Since(began).Round(time.Millisecond))
		return err
	})
}

// goBroken: what does not compile is told by dev with the compiler's words.
func goBroken(t *testing.T, s *terminal, _ *tab, notes *screen) {
	t.Helper()
	since := len(notes.String())
	s.write("broken.go", "package main\n\nvar x int = nothing\n")
	awaitAfter(t, notes, since, "web does not stay up")
	awaitAfter(t, notes, since, "  | ./broken.go:3:13: undefined: nothing")
}

func makeDjango(t *testing.T, dir, site string) {
	start := exec.CommandContext(t.Context(), "/usr/bin/python3", "-m", "django", "startproject", "mysite", dir)
	start.Env = append(os.Environ(), "PYTHONPATH="+site)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("django-admin startproject: %v\n%s", err, out)
	}
	// A page of the template that has a form, and a text to edit.
	change(t, filepath.Join(dir, "mysite", "urls.py"), "urlpatterns = [", "from django.http import HttpResponse\n\n"+
		"admin.site.site_header = 'Site of the first edit'\n\nurlpatterns = [\n    path('favicon.ico', lambda request: HttpResponse(status=204)),")
	change(t, filepath.Join(dir, "mysite", "settings.py"), "ALLOWED_HOSTS = []", djangoSettings)
}

// djangoSettings are those of docs/frameworks.md, for the domain of this stack.
const djangoSettings = `ALLOWED_HOSTS = ['.localhost']
USE_X_FORWARDED_HOST = True
SECURE_PROXY_SSL_HEADER = ('HTTP_X_FORWARDED_PROTO', 'https')
`

func change(t *testing.T, file, from, to string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		t.Fatalf("%s has no %q", file, from)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func makeFastAPI(t *testing.T, dir, _ string) {
	const program = `from fastapi import FastAPI
from fastapi.responses import HTMLResponse

app = FastAPI()

@app.get("/", response_class=HTMLResponse)
def page():
    return '<link rel="icon" href="data:,"><h1>Hello from FastAPI</h1><form id="form" action="/form" method="post"></form>'

@app.post("/form", response_class=HTMLResponse)
def form():
    return '<link rel="icon" href="data:,">received'
`
	if err := os.WriteFile(filepath.Join(dir, "main.py"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
}

func makeGo(t *testing.T, dir string) string {
	const program = `package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	const icon = "<!doctype html><link rel='icon' href='data:,'>"
	http.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, icon+"<h1>Hello from Go</h1><form id='form' action='/form' method='post'></form>")
	})
	http.HandleFunc("POST /form", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, icon+"received") })
	log.Fatal(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}
`
	for name, text := range map[string]string{"main.go": program, "go.mod": "module app\n\ngo 1.24\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}
