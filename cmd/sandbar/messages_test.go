// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
	"github.com/sandbar-dev/sandbar/pkg/golden"
)

const noInstance = "no such instance or verb here: the instance's status.dataPlane lists its URL and verbs; one that was created a moment ago may need a few seconds"

// What a person reads, all of it in one file: testdata/messages.golden. Write it with -update.
func TestMessages(t *testing.T) {
	web := map[string]map[string]any{"web": nil}
	suspended := clitest.Refusing(http.StatusConflict, "Conflict", "the instance is suspended by its tenant: set its spec.suspended to false, or run sandbar resume, to resume it", metav1.StatusCause{Type: sandbarv1alpha1.CauseSuspended})
	unknown := clitest.Refusing(http.StatusNotFound, "NotFound", noInstance)
	// later has an instance vanish after it was found.
	later := func(w *world, then clitest.Objects) {
		found := false
		w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
			if !found && strings.HasSuffix(r.URL.Path, "/sandboxrunners/web") {
				found = true
				return false
			}
			return then.Answer(rw, r)
		}
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	clitest.Put(t, dir, "a", "1")
	file, err := filepath.Abs("testdata/messages.golden")
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir() // where the calls are made: cp tells what is here
	clitest.Plant(t, project, map[string]string{"cp.go": "package main\n", "testdata/messages.golden": "# nothing\n"})
	t.Chdir(project)
	var said strings.Builder
	for _, c := range []struct {
		name, args string
		arrange    func(*world)
	}{
		{"nothing is bound", "logs web", func(w *world) { w.Has(nil) }},
		{"nothing is bound, of another group", "logs web --resource things.example.com", func(w *world) { w.Has(nil) }},
		{"a kind that is written as such", "exec web --resource Sandbox.sandbar.dev -- true", func(w *world) { w.Has(clitest.Objects{"sandboxes": nil, "redis": nil}) }},
		{"a kind that is not there", "logs web --resource things.sandbar.dev", func(w *world) { w.Has(clitest.Objects{"sandboxes": nil, "redis": nil}) }},
		{"an instance of another kind", "logs notes", func(w *world) {
			w.Has(clitest.Objects{"sandboxrunners": web, "redis": nil, "sandboxes": {"notes": {"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox"}}})
		}},
		{"a name that is not there", "logs wbe", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": web, "sandboxes": nil}) }},
		{"the first name", "logs web", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": nil}) }},
		{"deleted meanwhile", "logs web", func(w *world) { later(w, clitest.Objects{"sandboxrunners": nil}); w.Serve(unknown) }},
		{"deleted meanwhile, while a command begins", "exec web -- true", func(w *world) { later(w, clitest.Objects{"sandboxrunners": nil}); w.Serve(unknown) }},
		{"being deleted", "restart web", func(w *world) {
			later(w, clitest.Objects{"sandboxrunners": {"web": {"kind": "SandboxRunner", "apiVersion": "sandbar.dev/v1alpha1", "metadata": map[string]any{"name": "web", "deletionTimestamp": "2026-01-01T00:00:00Z"}}}})
			w.Serve(unknown)
		}},
		{"created again meanwhile", "restart web", func(w *world) {
			later(w, clitest.Objects{"sandboxrunners": {"web": {"kind": "SandboxRunner", "apiVersion": "sandbar.dev/v1alpha1", "metadata": map[string]any{"name": "web", "uid": "another"}}}})
			w.Serve(unknown)
		}},
		{"a verb that the kind does not have", "restart web", func(w *world) { w.Verbs = []string{"exec", "log"}; w.Serve(unknown) }},
		{"suspended", "exec web -- true", func(w *world) { w.Serve(suspended) }},
		{"suspended, its log", "logs web", func(w *world) { w.Serve(suspended) }},
		{"a component that is not there", "logs web --component wbe", func(w *world) {
			w.Verbs = []string{"components/web/log", "components/api/log", "components/api/exec", "status"}
		}},
		{"a component of a kind without", "dev web --component api", func(w *world) { w.Verbs = []string{"exec", "log"} }},
		{"a name that cannot be", "dev My_App . --create", nil},
		{"a name with its kind and its namespace", "logs default/sandboxrunner/web", nil},
		{"a name with a kind that is not there", "logs sandboxrunnr/web", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": web}) }},
		{"an instance of a kind that is not there", "logs sandboxrunner/wbe", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": web, "sandboxes": nil}) }},
		{"suspended, with its kind", "exec sandboxrunner/web -n default -- true", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": web}); w.Serve(suspended) }},
		{"a command that is not there", "versoin", nil}, //nolint:misspell // on purpose
		{"a shell that is not there", "completion fishy", nil},
		{"a topic that is not there", "help lgos", nil},
		{"a topic of a command", "help completion fishy", nil},
		{"an argument where none is taken", "version x", nil},
		{"two arguments where one is taken", "logs web api", nil},
		{"three arguments where two are taken", "cp a b web:", nil},
		{"two arguments where one can be left out", "trust https://a https://b", nil},
		{"a command without dashes before it", "exec web ls", nil},
		{"a command without dashes before it, with a flag", "exec web ls -l", nil},
		{"dashes without a command", "exec web --", nil},
		{"a claim in a workspace of somebody else", "claim shell", func(w *world) {
			w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
				clitest.Refusing(http.StatusForbidden, "Forbidden", "access denied")(rw, r)
				return true
			}
		}},
		{"a time that is too short", "open web --for 10s", nil},
		{"a number of lines that is none", "logs web --tail -5", nil},
		{"a time that is none", "open web --for 10", nil},
		{"a port that is none", "open web -p http", nil},
		{"a port that is too large", "open web -p 70000", nil},
		{"a port to forward that is none", "port-forward web http", func(w *world) { w.Verbs = []string{"port-forward"} }},
		{"a file in the place of the directory", "sync web DIR/a", nil},
		{"a copy between two files here", "cp a b", nil},
		{"a copy of a file whose name has a colon, without a sandbox", "cp ./a:b DIR/c:d", nil},
		{"a copy to an absolute path", "cp testdata/messages.golden web:/workspace/x", func(w *world) { w.Verbs = []string{"files", "sync"} }},
		{"a number that is none", "logs web --tail abc", nil},
		{"a shutdown time that there is not", "renew web --extend 2h", func(w *world) { w.Verbs = []string{"renew"} }},
		{"a directory to an image without tar", "cp testdata web:/data", func(w *world) { w.Pod(t, t.TempDir(), clitest.Programs(t, "sh", "cat")) }},
		{"a directory of an image without tar", "cp web:/ here", func(w *world) { w.Pod(t, t.TempDir(), clitest.Programs(t, "sh", "cat")) }},
		{"a file to an image without anything", "cp cp.go web:/data/", func(w *world) { w.Pod(t, t.TempDir(), clitest.Programs(t)) }},
		{"a file of an image without anything", "cp web:/etc/hostname -", func(w *world) { w.Pod(t, t.TempDir(), clitest.Programs(t)) }},
		{"a file of a pod that is not there", "cp web:/data/x here", func(w *world) { w.Sends(t, clitest.Archive(t), "2") }},
		{"a copy to a volume that is full", "cp cp.go web:x", func(w *world) {
			w.Serve(func(rw http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				rw.WriteHeader(http.StatusInsufficientStorage)
				fmt.Fprint(rw, `{"code":"InsufficientStorage","message":"no space is left in the workspace: the volume has 100 bytes free, and the file needs 3000 more"}`)
			})
		}},
		{"suspended, of another kind", "logs notes --resource sandboxes.sandbar.dev -n default", func(w *world) { w.Serve(suspended) }},
		{"a command that is not there", "lgos web --tail 5", nil},
		{"a flag that is not there", "logs web --tial 5", nil},
		{"a namespace that is not there", "logs web -n nowhere", func(w *world) {
			w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
				one := strings.Replace(r.URL.Path, "/namespaces/nowhere", "/namespaces/default", 1)
				if strings.HasSuffix(r.URL.Path, "/api/v1/namespaces/nowhere") {
					rw.Header().Set("Content-Type", "application/json")
					rw.WriteHeader(http.StatusNotFound)
					fmt.Fprint(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","message":"namespaces \"nowhere\" not found","details":{"name":"nowhere","kind":"namespaces"}}`)
					return true
				}
				r.URL.Path = one
				return clitest.Objects{"sandboxrunners": {}}.Answer(rw, r)
			}
		}},
		{"a workspace of somebody else", "logs web", func(w *world) {
			w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
				clitest.Refusing(http.StatusForbidden, "Forbidden", "access denied")(rw, r)
				return true
			}
		}},
		{"a credential that has expired", "logs web", func(w *world) {
			w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
				clitest.Refusing(http.StatusUnauthorized, "Unauthorized", "Unauthorized")(rw, r)
				return true
			}
		}},
		{"a kubeconfig that is not there", "logs web --kubeconfig /nowhere/kubeconfig", nil},
		{"a variable whose name is none", "env web 1A=2", nil},
		{"a page without a slash", "open web --path foo", nil},
		{"a copy from above the files", "cp web:../.. here", func(w *world) { w.Verbs = []string{"exec", "files"} }},
		{"a toolchain that is not there", "dev new --create --toolchain ruby", nil},
		{"commands of a pod without a runner", "exec web --list", func(w *world) {
			w.Serve(clitest.Refusing(http.StatusUpgradeRequired, "UpgradeRequired", "websocket: the client is not using the websocket protocol"))
		}},
		{"suspended, its files", "sync web DIR", func(w *world) { w.Serve(suspended) }},
		{"suspended already", "suspend web", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": {"web": clitest.Suspendable(true)}}) }},
		{"not suspended", "resume web", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": {"web": clitest.Suspendable(false)}}) }},
		{"a kind that cannot be suspended", "suspend web", func(w *world) {
			w.Has(clitest.Objects{"sandboxrunners": {"web": {"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "metadata": map[string]any{"name": "web"}}}})
		}},
		{"a suspended one of a name that is not there", "resume wbe", func(w *world) { w.Has(clitest.Objects{"sandboxrunners": web}) }},
		{"what is trusted", "untrust", nil},
		{"a data plane that was not trusted", "untrust https://elsewhere.example.com", nil},
		{"a resource without a group", "logs web --resource sandboxes", nil},
		{"a data plane that is not trusted", "logs web", func(w *world) { w.Trust = filepath.Join(t.TempDir(), "none.json") }},
		{"a data plane that is not trusted, before a sandbox is made", "dev new --create", func(w *world) {
			w.Trust = filepath.Join(t.TempDir(), "none.json")
			w.Offers(clitest.HashOf(w.Bundle))
		}},
		{"a data plane that is not trusted, without a terminal", "trust", func(w *world) {
			w.Trust = filepath.Join(t.TempDir(), "none.json")
			w.Offers(clitest.HashOf(w.Bundle))
		}},
		{"a data plane whose CA has changed", "trust", func(w *world) { w.Offers(strings.Repeat("ab", 32)) }},
		{"another CA than the one that the binding names", "trust --yes", func(w *world) { w.Offers(strings.Repeat("ab", 32)) }},
	} {
		w := newWorld(t)
		if c.arrange != nil {
			c.arrange(w)
		}
		code, stdout, stderr := w.Run(t, strings.Fields(strings.Replace(c.args, "DIR", dir, 1))...)
		text := strings.NewReplacer(w.URL, "https://sandboxes.example.com", dir, "DIR", clitest.HashOf(w.Bundle), "<the bundle's hash>").Replace(stdout + clitest.Untimed(stderr))
		text = clitest.WorkspaceHost.ReplaceAllString(text, "https://kcp.example.com")
		fmt.Fprintf(&said, "# %s\n$ sandbar %s\n%s(exit code %d)\n\n", c.name, c.args, text, code)
	}
	golden.Check(t, file, []byte(said.String()))
}
