// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestPreviewsInABrowser is what a person sees of a sandbox in a real Chromium: a Vite project
// behind a signed link, with hot module replacement, server-sent events and nothing that passes
// from one preview to another; and that it ends when the right or the tenant ends it.
func TestPreviewsInABrowser(t *testing.T) {
	calm(t)
	p := newPreviews(t)
	t.Run("the page loads from the link, and nothing of the link is left", p.loads)
	t.Run("an edit arrives by hot module replacement, without a reload", p.hotReplaces)
	t.Run("server-sent events arrive one by one", p.streamsEvents)
	t.Run("the app is told where it is and not who looks at it", p.tellsTheApp)
	t.Run("neither its scripts nor another preview get a preview's cookies", p.keepsCookiesApart)
	t.Run("a service worker controls its own preview and no other", p.keepsWorkersApart)
	// From here on the browser has a session of the one for pages of the other and sends it along: until
	// then its partitions alone would keep them apart.
	t.Run("a link opens in the frame of another site", p.opensInAFrame)
	t.Run("another preview can neither fetch nor embed what a preview shows", p.keepsOthersOut)
	t.Run("a WebSocket opens for the preview's own pages and no other", p.opensSocketsForItsOwn)
	t.Run("what was given out ends when it is revoked", p.endsWhenRevoked)
	t.Run("no session outlives the token that its link was asked for with", p.endsWithTheToken)
}

// TestPreviewsEndInTheirTime: a page that is open ends with the right of who looks at it, and is renewed when
// its session alone has ended.
func TestPreviewsEndInTheirTime(t *testing.T) {
	long(t, "it waits for a session's minute, and until a stream is looked at again")
	calm(t)
	p := newPreviews(t)
	t.Run("who loses the right sees the page no more, also the one that is open", p.endsWithTheRight)
	t.Run("one that has ended is renewed where its link came from", p.isRenewed)
}

// newPreviews starts two sandboxes with a Vite project and opens both in one browser.
func newPreviews(t *testing.T) *previews {
	t.Helper()
	tn := newTenant(t, "alice")
	alice := callAs(t, tn.token)
	p := &previews{tn: tn, alice: alice, one: tn.vite("one"), two: tn.vite("two")}
	for _, box := range []*instance{p.one, p.two} {
		box.waitReady()
		box.deployVite(alice)
	}
	browser := newBrowser(t)
	p.a = browser.open(t, p.one.previewLink(alice, "/?from=link"))
	p.b = browser.open(t, p.two.previewLink(alice, "/"))
	p.hosts = map[string]string{"a": eval[string](p.a, "location.host"), "b": eval[string](p.b, "location.host")}
	return p
}

// previews are two sandboxes of a tenant, and a tab with the preview of each.
type previews struct {
	tn       *tenant
	alice    *caller
	one, two *instance
	a, b     *tab
	hosts    map[string]string // of a and b
}

func (p *previews) loads(t *testing.T) {
	a := p.a.on(t)
	until(a, "document.querySelector('#message').textContent", "Hello from Vite")
	if got, want := eval[string](a, "location.href"), "https://"+p.hosts["a"]+"/?from=link"; got != want {
		t.Errorf("the address is %s, want %s", got, want)
	}
	if got := eval[string](a, "document.referrer"); got != "" {
		t.Errorf("the page came from %s", got)
	}
	if !strings.HasPrefix(p.hosts["a"], p.one.id.Namespace()+".") || p.hosts["a"] == p.hosts["b"] {
		t.Errorf("the hosts are %v", p.hosts)
	}
	a.screenshot("loaded")
}

func (p *previews) hotReplaces(t *testing.T) {
	a, c := p.a.on(t), p.alice.on(t)
	eval[bool](a, "window.survivor = true")
	// Vite's client connects after the page has loaded, and misses an edit before that.
	eventually(t, "the page shows an edit", func() error {
		text := "edited " + randomHex(4)
		synced := time.Now()
		c.want(http.StatusOK, http.MethodPost, p.one.base()+"/sync", editBody(t, "message.js", "export const message = '"+text+"';\n"))
		err := poll(t.Context(), 10*time.Second, func() error {
			got, err := try[string](a, "document.querySelector('#message').textContent")
			if err == nil && got != text {
				err = fmt.Errorf("it shows %q", got)
			}
			return err
		})
		if err == nil {
			t.Logf("from sync to what the page shows: %v (seen by polling every 100 ms)", time.Since(synced).Round(time.Millisecond))
		}
		return err
	})
	if !eval[bool](a, "window.survivor === true") {
		t.Error("the page was loaded anew")
	}
	a.screenshot("edited")
}

func (p *previews) streamsEvents(t *testing.T) {
	a := p.a.on(t)
	until(a, "document.querySelector('#events').textContent.startsWith('tick ')", true)
	first := eval[string](a, "document.querySelector('#events').textContent")
	until(a, fmt.Sprintf("document.querySelector('#events').textContent !== %q", first), true)
}

func (p *previews) tellsTheApp(t *testing.T) {
	a := p.a.on(t)
	eval[string](a, "document.cookie = 'own=1'")
	var headers map[string]string
	if err := json.Unmarshal([]byte(eval[string](a, "fetch('/headers').then((r) => r.text())")), &headers); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"host": "localhost", "x-forwarded-host": p.hosts["a"], "x-forwarded-proto": "https", "x-forwarded-prefix": "", "cookie": "own=1",
	} {
		if headers[name] != want {
			t.Errorf("%s is %q, want %q", name, headers[name], want)
		}
	}
}

func (p *previews) keepsCookiesApart(t *testing.T) {
	a, b := p.a.on(t), p.b.on(t)
	if got := eval[string](a, "document.cookie"); got != "own=1" {
		t.Errorf("its own scripts see %q", got)
	}
	if got := eval[string](b, "document.cookie"); got != "" {
		t.Errorf("another preview's scripts see %q", got)
	}
	if got := eval[string](b, "fetch('/headers').then((r) => r.text())"); strings.Contains(got, "cookie") {
		t.Errorf("another preview's app got %s", got)
	}
}

func (p *previews) keepsWorkersApart(t *testing.T) {
	a, b := p.a.on(t), p.b.on(t)
	eval[bool](a, "navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready).then(() => true)")
	until(a, "fetch('/from-worker').then((r) => r.text())", "from the service worker")
	if got := eval[string](b, "fetch('/from-worker').then((r) => r.text())"); got == "from the service worker" {
		t.Error("it answers another preview")
	}
	if !eval[bool](b, "navigator.serviceWorker.controller === null") {
		t.Error("it controls another preview")
	}
}

func (p *previews) keepsOthersOut(t *testing.T) {
	b := p.b.on(t)
	for _, options := range []string{"{credentials: 'include'}", "{credentials: 'include', method: 'POST'}", "{}"} {
		expression := fmt.Sprintf("fetch('https://%s/headers', %s).then(() => 'read', (e) => e.name)", p.hosts["a"], options)
		if got := eval[string](b, expression); got != "TypeError" {
			t.Errorf("%s: %s", expression, got)
		}
	}
	expression := fmt.Sprintf("new Promise((ok) => { const s = document.createElement('script'); s.onload = () => ok('ran'); s.onerror = () => ok('refused'); s.src = 'https://%s/main.js'; document.head.append(s); })", p.hosts["a"])
	if got := eval[string](b, expression); got != "refused" {
		t.Errorf("a script of the preview %s", got)
	}
}

func (p *previews) opensSocketsForItsOwn(t *testing.T) {
	// Vite takes a page's socket only with the token that its client has.
	token := eval[string](p.a.on(t), `fetch('/@vite/client').then((r) => r.text()).then((client) => /wsToken = "([^"]+)"/.exec(client)[1])`)
	socket := func(host string) string {
		return fmt.Sprintf("new Promise((ok) => { const s = new WebSocket('wss://%s/?token=%s', 'vite-hmr'); s.onopen = () => { ok('open'); s.close(); }; s.onerror = () => ok('refused'); })", host, token)
	}
	if got := eval[string](p.a.on(t), socket(p.hosts["a"])); got != "open" {
		t.Errorf("for its own page: %s", got)
	}
	if got := eval[string](p.b.on(t), socket(p.hosts["a"])); got != "refused" {
		t.Errorf("for another preview's page: %s", got)
	}
}

func (p *previews) opensInAFrame(t *testing.T) {
	b, c := p.b.on(t), p.alice.on(t)
	eval[bool](b, fmt.Sprintf("(() => { const f = document.createElement('iframe'); f.id = 'frame'; f.src = %q; document.body.append(f); return true; })()", p.one.previewLink(c, "/")))
	// What is in the frame is another's, so it is asked by way of the browser.
	eventually(t, "the frame shows the preview", func() error {
		targets, err := chromedp.Targets(b.ctx)
		if err != nil {
			return err
		}
		for _, target := range targets {
			if target.Type == "iframe" && target.URL == "https://"+p.hosts["a"]+"/" {
				return nil
			}
		}
		return fmt.Errorf("targets: %v", targets)
	})
	b.screenshot("framed")
}

func (p *previews) endsWithTheRight(t *testing.T) {
	carol := callAs(t, world.Stack.Token("carol"))
	previewer := p.tn.role("e2e-previewer",
		rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{"sandboxrunners", "sandboxrunners/proxy"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{"sandboxrunners/proxy-url"}, Verbs: []string{"create"}})
	p.tn.admit(previewer, "carol")
	eventually(t, "carol gets links", func() error {
		if code, body := carol.do(http.MethodPost, p.two.base()+"/proxy-url", nil); code != http.StatusCreated {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	hers := newBrowser(t).open(t, p.two.previewLink(carol, "/"))
	until(hers, "document.querySelector('#message').textContent", "Hello from Vite")
	admin := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(p.tn.path))
	withdrawn := time.Now()
	if err := admin.RbacV1().ClusterRoles().Delete(t.Context(), previewer.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Its WebSocket is cut; that which the page opens then is closed at once, and so it loads itself again.
	until(hers, "document.title", "You may not see this preview")
	t.Logf("the page went after %v", time.Since(withdrawn).Round(100*time.Millisecond))
	hers.visit("https://" + p.hosts["b"] + "/")
	if got := eval[string](hers, "document.title"); got != "You may not see this preview" {
		t.Errorf("the page is %q", got)
	}
	hers.screenshot("forbidden")
}

func (p *previews) endsWhenRevoked(t *testing.T) {
	a, c := p.a.on(t), p.alice.on(t)
	early := p.one.previewLink(c, "/")
	if got := eval[int](a, "fetch('/headers').then((r) => r.status)"); got != 200 {
		t.Fatalf("before: %d", got)
	}
	c.want(http.StatusOK, http.MethodDelete, p.one.base()+"/proxy-url", nil)
	// Vite's page loads itself again, and is that of a preview which is not open.
	until(a, "document.title", "This preview is not open here")
	if got := eval[int](p.b.on(t), "fetch('/headers').then((r) => r.status)"); got != 200 {
		t.Errorf("another instance's preview: %d", got)
	}
	a.visit(early)
	if got := eval[string](a, "document.title"); got != "This preview is not open here" {
		t.Errorf("an early link shows %q", got)
	}
	a.screenshot("revoked")
	a.visit(p.one.previewLink(c, "/"))
	until(a, "document.querySelector('#message') !== null", true)
}

func (p *previews) endsWithTheToken(t *testing.T) {
	admin := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(p.tn.path))
	ctx, name := t.Context(), "e2e-previews"
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const lasts = 600 // the shortest that kcp gives out
	seconds := int64(lasts)
	got, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account := callAs(t, got.Status.Token)
	var link struct {
		URL   string
		Until time.Time `json:"sessionExpirationTimestamp"`
	}
	eventually(t, "the service account gets a link", func() error {
		code, body := account.do(http.MethodPost, p.two.base()+"/proxy-url", []byte(`{"expirationSeconds": 43200}`))
		if code != http.StatusCreated {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return json.Unmarshal([]byte(body), &link)
	})
	if end := got.Status.ExpirationTimestamp.Time; link.Until.After(end) {
		t.Errorf("the session lasts until %v, its token until %v", link.Until, end)
	}
}

func (p *previews) isRenewed(t *testing.T) {
	c := p.alice.on(t)
	renewed := make(chan string, 10)
	var issuer *httptest.Server
	ask := func(path string) string {
		body, _ := json.Marshal(map[string]any{"path": path, "expirationSeconds": 60, "renewURL": issuer.URL + "/renew"})
		var link struct{ URL string }
		if err := json.Unmarshal([]byte(c.want(http.StatusCreated, http.MethodPost, p.two.base()+"/proxy-url", body)), &link); err != nil {
			t.Error(err)
		}
		return link.URL
	}
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Query().Get("path")
		renewed <- path
		http.Redirect(w, r, ask(path), http.StatusSeeOther)
	}))
	defer issuer.Close()
	// Vite's page, whose WebSocket is cut when the session ends, loads itself again and is led here.
	tab := newBrowser(t).open(t, ask("/?on=its+own"))
	until(tab, "document.querySelector('#message') !== null", true)
	eval[bool](tab, "window.before = true")
	until(tab, "window.before === undefined && document.querySelector('#message') !== null", true)
	if got := eval[string](tab, "location.href"); got != "https://"+p.hosts["b"]+"/?on=its+own" {
		t.Errorf("the address is %s", got)
	}
	if path := <-renewed; path != "/?on=its+own" {
		t.Errorf("it was renewed for %s", path)
	}
	if got := eval[int](tab, "fetch('/headers').then((r) => r.status)"); got != 200 {
		t.Errorf("afterwards: %d", got)
	}
	tab.screenshot("renewed")
}

// vite creates a SandboxRunner that runs the Vite project.
func (tn *tenant) vite(name string) *instance {
	tn.t.Helper()
	return tn.create(runners, "SandboxRunner", name, map[string]any{
		"projectRef": "e2e", "startCommand": "exec /opt/app-deps/node_modules/.bin/vite --configLoader native",
	})
}

// deployVite syncs the Vite project and waits until it is served.
func (i *instance) deployVite(c *caller) {
	c.t.Helper()
	root := filepath.Join("..", "examples", "vite")
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		c.t.Fatalf("reading the Vite project: %v", err)
	}
	c.want(http.StatusOK, http.MethodPost, i.base()+"/sync", syncBody(c.t, files))
	eventually(c.t, i.name+" serves", func() error {
		code, body := c.do(http.MethodGet, i.base()+"/proxy/", nil)
		if code != http.StatusOK || !strings.Contains(body, "/main.js") {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
}

// editBody is a /sync request that writes one file and leaves the process alone.
func editBody(t *testing.T, path, content string) []byte {
	t.Helper()
	return []byte(mustJSON(t, map[string]any{
		"files": []map[string]string{{"path": path, "content": content}}, "restart": "never",
	}))
}

// previewLink asks for a link to the instance's preview.
func (i *instance) previewLink(c *caller, path string) string {
	c.t.Helper()
	body := c.want(http.StatusCreated, http.MethodPost, i.base()+"/proxy-url", []byte(mustJSON(c.t, map[string]any{"path": path})))
	var link struct{ URL string }
	if err := json.Unmarshal([]byte(body), &link); err != nil {
		c.t.Fatal(err)
	}
	if u, err := url.Parse(link.URL); err != nil || u.Scheme != "https" {
		c.t.Fatalf("the link is %q (%v)", link.URL, err)
	}
	return link.URL
}
