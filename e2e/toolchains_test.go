// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// toolchainTools are what a developer finds in every toolchain.
const toolchainTools = "command -v bash git less nano ps"

// TestEachToolchainRunsAnApp: a sandbox of each toolchain has its language and its package manager, runs
// an app by the default command of the toolchain, and keeps what package managers download on its
// volume. Nothing is installed: sandboxes of this stack reach no network.
func TestEachToolchainRunsAnApp(t *testing.T) {
	calm(t)
	runToolchains(t, map[string]toolchainApp{
		"node": {
			files: map[string]string{
				// It starts again for each change below its directory, and it prints: what is written down of
				// that must not be one.
				"package.json": `{"name": "app", "private": true, "scripts": {"dev": "node --watch-path=. server.mjs"}}`,
				"server.mjs":   `import http from "node:http"; http.createServer((q, s) => s.end("hello from node")).listen(process.env.PORT);`,
			},
			versions: "node --version; npm --version; pnpm --version", prints: "v22.",
			caches: "npm config get cache; pnpm store path", restarts: 2,
		},
		"python": {
			files: map[string]string{
				"main.py": "import http.server, os\n" +
					"class H(http.server.BaseHTTPRequestHandler):\n" +
					"    def do_GET(self):\n        self.send_response(200); self.end_headers(); self.wfile.write(b'hello from python')\n" +
					"http.server.HTTPServer(('', int(os.environ['PORT'])), H).serve_forever()\n",
			},
			versions: "pip --version; python3 -m venv .venv && .venv/bin/pip --version", prints: "/workspace/.venv",
			caches: "pip cache dir",
		},
	})
}

// TestTheGoToolchainRunsAnApp is TestEachToolchainRunsAnApp for Go.
func TestTheGoToolchainRunsAnApp(t *testing.T) {
	long(t, "it compiles Go's HTTP server in a sandbox")
	calm(t)
	runToolchains(t, map[string]toolchainApp{
		"go": {
			files: map[string]string{
				"go.mod": "module app\n\ngo 1.24\n",
				"main.go": "package main\n\nimport (\n\t\"io\"\n\t\"net/http\"\n\t\"os\"\n)\n\nfunc main() {\n" +
					"\thttp.HandleFunc(\"/\", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, \"hello from go\") })\n" +
					"\thttp.ListenAndServe(\":\"+os.Getenv(\"PORT\"), nil)\n}\n",
			},
			versions: "go version", prints: "go1.",
			caches: "go env GOCACHE GOMODCACHE",
		},
	})
}

// toolchainApp is an app for one toolchain.
type toolchainApp struct {
	files map[string]string
	// versions is a command, prints what it prints.
	versions, prints string
	// caches is a command that prints where package managers keep what they download.
	caches string
	// restarts is how often a watcher may start the app again: for files that come one after the other.
	restarts int
}

func runToolchains(t *testing.T, apps map[string]toolchainApp) {
	for toolchain, tc := range apps {
		t.Run(toolchain, func(t *testing.T) {
			t.Parallel()
			tn := newTenant(t, "alice")
			s := newTerminal(t, tn)
			s.must("trust", world.URL, "--ca-file", world.CAFile)
			for name, content := range tc.files {
				s.write(name, content)
			}
			out, notes, stop := s.begin("dev", "app", s.dir, "--create", "--toolchain", toolchain)
			await(t, notes, "in sync")
			box := tn.existing(runners, "app")
			c := callAs(t, tn.token)
			began := time.Now()
			eventually(t, "the app answers", func() error {
				if code, body := c.do(http.MethodGet, box.base()+"/proxy/", nil); code != http.StatusOK || body != "hello from "+toolchain {
					return fmt.Errorf("code %d: %s", code, body)
				}
				return nil
			})
			t.Logf("from the files to the app's first answer: %v", time.Since(began).Round(time.Millisecond))
			await(t, notes, "app is Ready; open it with: sandbar open app")
			if got := s.must("exec", "app", "--", "sh", "-c", tc.versions); !strings.Contains(got, tc.prints) {
				t.Errorf("%s prints %q", tc.versions, got)
			}
			if got := s.must("exec", "app", "--", "bash", "-c", toolchainTools); strings.Count(got, "\n") != 5 {
				t.Errorf("of the tools there are %q", got)
			}
			for dir := range strings.FieldsSeq(s.must("exec", "app", "--", "sh", "-c", tc.caches)) {
				if !strings.HasPrefix(dir, "/sandbar/volume/.sandbar/cache/") {
					t.Errorf("a package manager keeps what it downloads in %s", dir)
				}
			}
			if got := s.must("exec", "app", "--", "ls", "-A", "/workspace"); strings.Contains(got, ".sandbar") {
				t.Errorf("the runner's own files are among the app's: %s", got)
			}
			if restarts := strings.Count(out.String(), "Restarting 'server.mjs'"); restarts > tc.restarts {
				t.Errorf("the app's watcher started it again %d times: %s", restarts, out)
			}
			if code := stop(); code != 130 {
				t.Errorf("dev ended with %d: %s", code, notes)
			}
		})
	}
}

// TestDevOfAnNPMProject: sandbar dev --create needs no other flag for a project that npm run dev starts.
// When it does not stay up, dev says so with its last lines and with what to do; when it is mended it
// says that too. What a package manager has downloaded outlives a suspension.
func TestDevOfAnNPMProject(t *testing.T) {
	long(t, "it fetches from the npm registry and waits for a crash to be told")
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	s.write("package.json", `{"name": "app", "private": true, "type": "module", "scripts": {"dev": "nosuchtool"}}`)
	_, notes, stop := s.begin("dev", "web", s.dir, "--create")
	await(t, notes, "web does not stay up")
	await(t, notes, "  | sh: 1: nosuchtool: not found")
	await(t, notes, "sandbar exec web -- npm install")
	b := newBrowser(t)
	b.terminalPicture(t, "dev-crash", "$ sandbar dev web . --create\n"+notes.String())
	page := b.open(t, strings.TrimSpace(s.must("open", "web", "--print")))
	until(page, "document.title", "This preview is not ready")
	page.screenshot("not-listening")
	s.write("package.json", `{"name": "app", "private": true, "type": "module", "scripts": {"dev": "/opt/app-deps/node_modules/.bin/vite --configLoader native"}}`)
	s.write("index.html", "<h1>hello</h1>")
	s.write("vite.config.js", `export default {cacheDir: "/tmp/vite", server: {host: true, port: Number(process.env.PORT), strictPort: true, allowedHosts: true}}`)
	await(t, notes, "web is Ready; open it with: sandbar open web")
	box := tn.existing(runners, "web")
	c := callAs(t, tn.token)
	eventually(t, "Vite answers", func() error {
		if code, body := c.do(http.MethodGet, box.base()+"/proxy/", nil); code != http.StatusOK || !strings.Contains(body, "<h1>hello</h1>") {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	b.terminalPicture(t, "dev", "$ sandbar dev web . --create\n"+notes.String())
	s.must("exec", "web", "--", "bash", "-c", installFromRegistry)
	if code := stop(); code != 130 {
		t.Errorf("dev ended with %d: %s", code, notes)
	}
	box.patch(t, map[string]any{"suspended": true})
	// Its own status says it: until then it would still be Ready from before.
	eventually(t, "the instance is Suspended", func() error {
		obj, err := box.get()
		if err != nil {
			return err
		}
		if phase, _ := obj.Object["status"].(map[string]any)["phase"].(string); phase != "Suspended" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	box.patch(t, map[string]any{"suspended": false})
	box.waitReady()
	// The registry is gone, with /tmp and the pod.
	again := "cd /workspace/cached && rm -rf node_modules && npm install --offline --registry http://127.0.0.1:4873 >&2 && cat node_modules/kept/index.js"
	if got := s.must("exec", "web", "--", "sh", "-c", again); got != "kept\n" {
		t.Errorf("after a suspension npm installs %q from its cache", got)
	}
}

// TestAnAppThatListensElsewhereIsTold: a preview that does not come is a riddle until somebody says where
// the app listens, and where it should. The log says it, and so does dev.
func TestAnAppThatListensElsewhereIsTold(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", "--yes")
	serve := func(listen string) {
		s.write("server.mjs", `import http from "node:http"; http.createServer((_, s) => s.end("hello")).listen(`+listen+`)`)
	}
	serve(`5173, "127.0.0.1"`)
	out, notes, stop := s.begin("dev", "web", s.dir, "--create", "--start-command", "exec node server.mjs", "--restart", "auto")
	await(t, out, "sandbar: the app listens at 127.0.0.1:5173 so far, and previews lead to port 3000")
	serve(`3000, "127.0.0.1"`)
	await(t, out, "sandbar: the app listens at 127.0.0.1:3000, and no preview reaches the loopback address")
	serve(`3000`)
	box, c := tn.existing(runners, "web"), callAs(t, tn.token)
	eventually(t, "the preview answers", func() error {
		return wantCode(c, http.StatusOK, http.MethodGet, box.base()+"/proxy/")
	})
	if code := stop(); code != 130 {
		t.Errorf("dev ended with %d: %s", code, notes)
	}
}

// installFromRegistry is npm install, in a sandbox, of a package that a registry beside it serves: the
// stack's sandboxes reach no other.
const installFromRegistry = `set -euo pipefail
mkdir -p /tmp/registry/kept /workspace/cached
cd /tmp/registry/kept
echo '{"name": "kept", "version": "1.0.0"}' > package.json
echo kept > index.js
npm pack --silent --pack-destination /tmp/registry >&2
cat > /tmp/registry/server.mjs <<'END'
import http from "node:http"; import fs from "node:fs"; import crypto from "node:crypto";
const tarball = fs.readFileSync("/tmp/registry/kept-1.0.0.tgz"), url = "http://127.0.0.1:4873";
const integrity = "sha512-" + crypto.createHash("sha512").update(tarball).digest("base64");
const about = { name: "kept", "dist-tags": { latest: "1.0.0" },
  versions: { "1.0.0": { name: "kept", version: "1.0.0", dist: { tarball: url + "/kept.tgz", integrity } } } };
http.createServer((q, s) => s.end(q.url === "/kept.tgz" ? tarball : JSON.stringify(about)))
  .listen(4873, "127.0.0.1", () => console.log("listening"));
END
coproc node /tmp/registry/server.mjs
read -r _ <&"${COPROC[0]}"
cd /workspace/cached
echo '{"name": "cached", "private": true}' > package.json
npm install --registry http://127.0.0.1:4873 --no-audit --no-fund kept >&2
cat node_modules/kept/index.js
kill "$COPROC_PID"
`

// existing is an instance that the program under test has made.
func (tn *tenant) existing(gvr schema.GroupVersionResource, name string) *instance {
	tn.t.Helper()
	i := &instance{tn: tn, gvr: gvr, name: name}
	obj, err := i.get()
	if err != nil {
		tn.t.Fatal(err)
	}
	i.id = placement.ID{Origin: tn.cluster, UID: obj.GetUID()}
	return i
}

// TestAToolchainThatThereIsNot: what is no toolchain is refused at once with those that there are, by the
// command line and by kcp.
func TestAToolchainThatThereIsNot(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	code, _, errs := s.run("dev", "web", s.dir, "--create", "--toolchain", "registry.example/evil:1")
	if code != 2 || !strings.Contains(errs, "there are node, python, go") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{"projectRef": "e2e", "toolchain": "registry.example/evil:1"},
	}}
	_, err := tn.dyn.Resource(runners).Namespace("default").Create(t.Context(), obj, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.toolchain") || !strings.Contains(err.Error(), `"node", "python", "go"`) {
		t.Errorf("kcp says %v", err)
	}
}
