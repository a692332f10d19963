// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

var webapps = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "webapps"}

// TestDevelopmentOfSeveralComponents: a kind of several parts runs in production, its page and
// its API are edited live in development mode, and it goes back to production; the database is
// the same pod with the same rows all along.
func TestDevelopmentOfSeveralComponents(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	tn.waitServed(webapps)
	app := tn.create(webapps, "WebApp", "notes", map[string]any{})
	app.waitReady()
	database := app.podUID(t, "database-0")

	t.Run("in production the page leads to the API and that to the database", func(t *testing.T) {
		c := c.on(t)
		if page := c.want(http.StatusOK, http.MethodGet, app.base()+"/proxy/", nil); !strings.Contains(page, "<title>Notes</title>") {
			t.Errorf("the page: %s", page)
		}
		app.waitGreeting(c, "Hello from the API")
		eventually(t, "the first note is kept", func() error {
			code, body := c.do(http.MethodPost, app.base()+"/proxy/api/notes", []byte("from production"))
			if code != http.StatusCreated {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
		app.wantNotes(c, "from production")
	})
	t.Run("in production the runner's verbs say how to get them", func(t *testing.T) {
		c := c.on(t)
		for _, verb := range []string{"sync", "restart"} {
			status := c.wantStatus(http.StatusConflict, http.MethodPost, app.base()+"/components/api/"+verb, nil)
			if !strings.Contains(status.Message, "spec.mode to development") {
				t.Errorf("%s: %s", verb, status.Message)
			}
		}
		obj, err := app.get()
		if err != nil {
			t.Fatal(err)
		}
		if status := mustJSON(t, obj.Object["status"]); strings.Contains(status, "controlS") {
			t.Errorf("a tenant sees the runner's references: %s", status)
		}
	})

	if list := c.want(http.StatusOK, http.MethodGet, "/dataplane/clusters/"+tn.path+"/templates", nil); !strings.Contains(list,
		`"development":{"api":{"workspacePath":"api"},"web":{"workspacePath":"web"}}`) {
		t.Errorf("the catalogue does not tell which part of the project is whose: %s", list)
	}
	app.setMode(t, "development")
	api, web := app.component("api"), app.component("web")
	t.Run("in development both components run from what is synced to them", func(t *testing.T) {
		c := c.on(t)
		c.want(http.StatusOK, http.MethodPost, api+"/sync", syncBody(t, component(t, "api")))
		c.want(http.StatusOK, http.MethodPost, web+"/sync", syncBody(t, component(t, "web")))
		app.waitGreeting(c, "Hello from the API")
		app.wantNotes(c, "from production")
	})
	t.Run("an edit of the API is live, and the rows are those of production", func(t *testing.T) {
		c := c.on(t)
		if answer := app.edit(c, "Edited while it runs"); !strings.Contains(answer, `"reload":{"state":"Done","rules":[0],"restarted":true}`) {
			t.Errorf("the rule of *.py did not run: %s", answer)
		}
		app.waitGreeting(c, "Edited while it runs")
		c.want(http.StatusCreated, http.MethodPost, app.base()+"/proxy/api/notes", []byte("from development"))
		app.wantNotes(c, "from production", "from development")
	})
	t.Run("an edit that does not parse leaves the API that runs, and says so", func(t *testing.T) {
		c := c.on(t)
		broken := c.want(http.StatusOK, http.MethodPost, api+"/sync", syncBody(t, map[string]string{"server.py": "def broken(:\n"}))
		if !strings.Contains(broken, `"state":"Failed"`) || !strings.Contains(broken, "exited with code 1") {
			t.Errorf("the answer: %s", broken)
		}
		app.waitGreeting(c, "Edited while it runs")
		if log := c.want(http.StatusOK, http.MethodGet, api+"/log", nil); !strings.Contains(log, "SyntaxError") {
			t.Errorf("the log does not say why: %s", log)
		}
		app.edit(c, "Edited while it runs")
		app.waitGreeting(c, "Edited while it runs")
	})
	t.Run("a person edits all components from one directory", func(t *testing.T) {
		c, s := c.on(t), newTerminal(t, tn)
		s.must("trust", world.URL, "--ca-file", world.CAFile)
		for _, part := range []string{"api", "web"} {
			for name, content := range component(t, part) {
				s.writeAt(part, name, content)
			}
		}
		s.must("sync", "webapp/notes", s.dir, "--prefer", "local")
		out, notes, stop := s.begin("dev", "notes", s.dir, "--resource", "webapps.sandbar.dev")
		await(t, notes, "api | ")
		await(t, notes, "web | ")
		s.writeAt("api", "server.py", strings.ReplaceAll(component(t, "api")["server.py"], "Hello from the API", "Edited on disk"))
		app.waitGreeting(c, "Edited on disk")
		await(t, out, "api | api: listening on 8000")
		if code := stop(); code != 130 {
			t.Errorf("dev ended with %d: %s", code, notes)
		}
		app.edit(c, "Edited while it runs")
		app.waitGreeting(c, "Edited while it runs")
	})
	t.Run("each component has a log of its own", func(t *testing.T) {
		c := c.on(t)
		for component, line := range map[string]string{api: "api: listening on 8000", web: "web: listening on 3000"} {
			if log := c.want(http.StatusOK, http.MethodGet, component+"/log", nil); !strings.Contains(log, line) {
				t.Errorf("%s/log lacks %q: %s", component, line, log)
			}
		}
		if log := c.want(http.StatusOK, http.MethodGet, app.component("database")+"/log", nil); !strings.Contains(log, "ready to accept connections") {
			t.Errorf("the database's log: %s", log)
		}
	})
	t.Run("to production and back, the rows and the files are kept", func(t *testing.T) {
		c := c.on(t)
		app.setMode(t, "production")
		app.waitGreeting(c, "Hello from the API")
		app.wantNotes(c, "from production", "from development")
		app.setMode(t, "development")
		app.waitGreeting(c, "Edited while it runs")
		app.setMode(t, "production")
	})
	if now := app.podUID(t, "database-0"); now != database {
		t.Errorf("the database's pod is %s, and was %s: the mode must not touch it", now, database)
	}
	app.delete()
	waitGone(t, app.id)
}

// awkward is a shell script with all that kro, Kubernetes or YAML could take for theirs, and
// awkwardPrints is what a shell makes of it.
const (
	awkward = `X='${schema.spec.suspended} ${'; Y="$(printf '%s' "$PORT")" # "quoted"
printf 'MARK <%s> <%s> <%s> <%s>\n' "$X" "$Y" "$(PORT=5; echo $PORT)" 'back\slash "it" $(PORT) $$ ${HOME} }'
test "$$" -gt 1 && echo "PID $(( $$ > 1 ))"
`
	awkwardPrints = `MARK <${schema.spec.suspended} ${> <8000> <5> <back\slash "it" $(PORT) $$ ${HOME} }>` + "\nPID 1\n"
)

const scriptTemplate = `
apiVersion: sandbar.dev/v1alpha1
kind: Template
metadata: {name: NAME}
spec:
  displayName: Script
  version: 0.1.0
  development:
    components:
      app:
        workspacePath: .
        image: node
        startCommand: placeholder
        port: http
        reload: {rules: [{paths: [trigger], command: placeholder, restart: false}]}
  graph:
    schema:
      apiVersion: v1alpha1
      kind: KIND
      group: sandbar.dev
      spec: {suspended: boolean | default=false}
    resources:
    - id: app
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: app
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        spec:
          replicas: 2
          selector: {matchLabels: {app: app}}
          template:
            metadata:
              labels: {app: app, sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
            spec:
              automountServiceAccountToken: false
              securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
              containers:
              - name: app
                image: localhost/sandbar/toolchain-node:dev
                imagePullPolicy: IfNotPresent
                command: [sleep, infinity]
                ports: [{name: http, containerPort: 8000}]
                securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
`

// TestScriptsSurvive: what a Template's author and a tenant write as commands reaches the shell
// as it was written, past YAML, kro's expressions and Kubernetes' expansion of variables.
func TestScriptsSurvive(t *testing.T) {
	changes(t)
	n := newNote(t)
	n.text = scriptTemplate
	n.edit = func(spec map[string]any) {
		app := spec["development"].(map[string]any)["components"].(map[string]any)["app"].(map[string]any)
		app["startCommand"] = awkward + "exec sleep 3600"
		app["reload"].(map[string]any)["rules"].([]any)[0].(map[string]any)["command"] = awkward
	}
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "bob")
	tn.waitServed(n.gvr)
	c := callAs(t, tn.token)

	app := tn.create(n.gvr, n.kind, "script", map[string]any{"mode": "development"})
	app.waitReady()
	log := app.component("app") + "/log"
	c.waitLog(log, awkwardPrints)
	c.want(http.StatusOK, http.MethodPost, app.component("app")+"/sync", syncBody(t, map[string]string{"trigger": "now"}))
	c.waitLog(log, awkwardPrints+awkwardPrints)

	box := tn.create(runners, "SandboxRunner", "script", map[string]any{"projectRef": "e2e", "port": 8000, "startCommand": awkward + "exec sleep 3600"})
	box.waitReady()
	c.waitLog(box.base()+"/log", awkwardPrints)
	app.delete()
	box.delete()
	waitGone(t, app.id)
	waitGone(t, box.id)
}

// TestDevelopmentIsCheckedWhenApplied: an operator is told by the field's path what cannot be
// developed, before any instance is.
func TestDevelopmentIsCheckedWhenApplied(t *testing.T) {
	changes(t)
	n := newNote(t)
	n.text = scriptTemplate
	for _, tc := range []struct{ replace, by, reason, want string }{
		{"workspacePath: .", "workspacePath: ../other", "InvalidTemplate", "spec.development.components.app.workspacePath: must be a clean relative path"},
		{"port: http", "port: grpc", "InvalidTemplate", `spec.development.components.app.port: the container has no port named "grpc"; it has: http`},
		{"image: node", "image: nothing", "ImageMissing", `spec.development.components.app.image: the provider has no image "nothing"`},
	} {
		n.apply(tc.replace, tc.by)
		n.wait("GraphAccepted", metav1.ConditionFalse, tc.reason, tc.want)
	}
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
}

func (c *caller) waitLog(path, want string) {
	c.t.Helper()
	eventually(c.t, "the log is the script's", func() error {
		if code, log := c.do(http.MethodGet, path, nil); code != http.StatusOK || log != want {
			return fmt.Errorf("code %d, got\n%s\nwant\n%s", code, log, want)
		}
		return nil
	})
}

// waitServed waits until a kind is served in the workspace: a Template that init has just applied
// takes a moment to become an API.
func (tn *tenant) waitServed(gvr schema.GroupVersionResource) {
	tn.t.Helper()
	eventually(tn.t, gvr.Resource+" are served in the workspace", func() error {
		_, err := tn.dyn.Resource(gvr).Namespace("default").List(tn.t.Context(), metav1.ListOptions{})
		return err
	})
	tn.waitRight(gvr)
}

// component is the path of a component's verbs.
func (i *instance) component(name string) string { return i.base() + "/components/" + name }

// setMode switches the mode and waits until the instance is Ready in it.
func (i *instance) setMode(t *testing.T, mode string) {
	t.Helper()
	began := time.Now()
	i.patch(t, map[string]any{"mode": mode})
	eventually(t, i.name+" is Ready in "+mode, func() error {
		obj, err := i.get()
		if err != nil {
			return err
		}
		if c := condition(obj, "Ready"); c == nil || c["observedGeneration"] != obj.GetGeneration() {
			return fmt.Errorf("Ready is of another generation: %v", c)
		}
		return conditionError(obj, "Ready", metav1.ConditionTrue)
	})
	t.Logf("%s is Ready in %s after %v (seen by polling every 100 ms)", i.name, mode, time.Since(began).Round(100*time.Millisecond))
}

func (i *instance) patch(t *testing.T, spec map[string]any) {
	t.Helper()
	patch := []byte(mustJSON(t, map[string]any{"spec": spec}))
	if _, err := i.tn.dyn.Resource(i.gvr).Namespace("default").Patch(t.Context(), i.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatalf("patching %s: %v", i.name, err)
	}
}

func (i *instance) podUID(t *testing.T, name string) types.UID {
	t.Helper()
	pod, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(i.id.Namespace()).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.UID
}

func (i *instance) waitGreeting(c *caller, want string) {
	c.t.Helper()
	eventually(c.t, "the API says "+want, func() error {
		code, body := c.do(http.MethodGet, i.base()+"/proxy/api/greeting", nil)
		if code != http.StatusOK || body != want {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
}

func (i *instance) wantNotes(c *caller, want ...string) {
	c.t.Helper()
	var notes []struct {
		Text string `json:"text"`
	}
	body := c.want(http.StatusOK, http.MethodGet, i.base()+"/proxy/api/notes", nil)
	if err := json.Unmarshal([]byte(body), &notes); err != nil {
		c.t.Fatalf("the notes: %v: %s", err, body)
	}
	var got []string
	for _, note := range notes {
		got = append(got, note.Text)
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("the notes are %q, want %q", got, want)
	}
}

// edit syncs the API's program with another greeting and returns the answer.
func (i *instance) edit(c *caller, greeting string) string {
	c.t.Helper()
	program := strings.ReplaceAll(component(c.t, "api")["server.py"], "Hello from the API", greeting)
	return c.want(http.StatusOK, http.MethodPost, i.component("api")+"/sync", syncBody(c.t, map[string]string{"server.py": program}))
}

// component reads the files of a part of the example.
func component(t *testing.T, part string) map[string]string {
	t.Helper()
	dir := filepath.Join("..", "examples", "web-app", part)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(data)
	}
	return files
}
