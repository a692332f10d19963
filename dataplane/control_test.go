// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	laterToken  = "control-token-of-a-later-key-51d0"
	editedToken = "somebody-has-typed-this-token"
)

// controlServer is a pod's: it takes proofs, and notes what it got before it looked at them.
type controlServer struct {
	inner    http.Handler
	verifier *controlproof.Verifier

	mu         sync.Mutex
	keys       []controlproof.Key
	seen       []string // method and path
	heard      strings.Builder
	challenged int
}

func newControlServer(podUID string, inner http.Handler, tokens ...string) *controlServer {
	s := &controlServer{inner: inner, verifier: controlproof.NewVerifier(podUID)}
	s.has(tokens...)
	return s
}

// has is what the kubelet does: it brings the tokens that a Secret has to the pod.
func (s *controlServer) has(tokens ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = nil
	for _, token := range tokens {
		s.keys = append(s.keys, controlproof.NewKey(token))
	}
}

func (s *controlServer) known() []controlproof.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

func (s *controlServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/preview") {
		s.inner.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	_ = r.Header.Write(&s.heard)
	if r.URL.Path == controlproof.ChallengePath {
		s.challenged++
	}
	s.mu.Unlock()
	if r.URL.Path == controlproof.ChallengePath {
		c, err := s.verifier.Challenge(r.URL.Query().Get(controlproof.NonceParameter), s.known())
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(c)
		return
	}
	proofs := r.Header[controlproof.Header]
	if len(proofs) != 1 || len(r.Header[headers.ControlToken]) > 0 {
		s.refuse(w, controlproof.ErrMissing)
		return
	}
	query := r.URL.RawQuery
	if query == "" {
		query = r.Header.Get(controlproof.QueryHeader)
	}
	if err := s.verifier.Verify(proofs[0], r.Method, r.URL.Path, query, s.known()); err != nil {
		var why controlproof.RefusedError
		errors.As(err, &why)
		s.refuse(w, why)
		return
	}
	s.inner.ServeHTTP(w, r)
}

func (s *controlServer) refuse(w http.ResponseWriter, why controlproof.RefusedError) {
	w.Header().Set(controlproof.RefusedHeader, string(why))
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, `{"code":"Unauthorized","message":"the runner's own words"}`)
}

func (s *controlServer) count() (requests, challenges int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen) - s.challenged, s.challenged
}

// podUIDOf is that of the demo's pod.
var podUIDOf = string(fixture.Pod(demoID, "pod-0", "127.0.0.1", 80).UID)

// withProofs has the demo's Template ask for proofs.
func withProofs(s *setup) { s.template.Spec.DataPlane.ControlAuth = sandbarv1alpha1.ControlAuthProof }

// knowingItsPod has the demo's pod be told its UID.
func knowingItsPod(s *setup) {
	s.changePod = func(pod *corev1.Pod) { pod.Spec.Containers[0].Env = fixture.NamesItsUID() }
}

func TestAPodGetsAProofAndNoToken(t *testing.T) {
	server := newControlServer(podUIDOf, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			switcher("", func(conn net.Conn, in *bufio.Reader) { _, _ = io.Copy(conn, in) }).ServeHTTP(w, r)
			return
		}
		recorder().ServeHTTP(w, r)
	}), controlToken)
	w := newWorld(t, server, withProofs, knowingItsPod)
	forged := func(r *http.Request) {
		r.Header[controlproof.Header], r.Header[headers.ControlToken] = []string{"v1 forged"}, []string{"forged"}
		r.Header["Connection"] = []string{controlproof.Header}
	}
	for _, c := range []struct{ method, path, body string }{
		{"GET", "log", ""},
		{"GET", "log?tail=5&x=%20%2F", ""},
		{"GET", "log/a%2Fb/%C3%A4//c%0Ad", ""},
		{"POST", "sync", "the body"},
		{"POST", "sync", ""},
		{"POST", "components/api/restart", ""},
	} {
		if got := w.received(c.method, demo+c.path, c.body); got.Body != c.body {
			t.Errorf("%s %s: the pod got %q", c.method, c.path, got.Body)
		}
		w.received(c.method, demo+c.path, c.body, forged)
	}
	conn := w.dial()
	switched(t, conn, demo+"echo", "")
	conn.Close()
	if n, challenges := server.count(); n != 13 || challenges > 4 {
		t.Errorf("%d requests cost %d challenges: one for each connection is enough", n, challenges)
	}
	if heard := server.heard.String(); strings.Contains(heard, controlToken) || strings.Contains(heard, headers.ControlToken) || strings.Contains(heard, "forged") {
		t.Errorf("the pod heard a token, or what the caller made up: %s", heard)
	}
	rec := httptest.NewRecorder()
	w.server.metrics.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, line := range []string{`control_requests_total{auth="proof"} 13`, `control_requests_total{auth="token"} 0`} {
		if !strings.Contains(rec.Body.String(), line) {
			t.Errorf("the metrics do not say %s", line)
		}
	}
}

// A pod that gets the address of another one learns nothing: not the token, not a proof, and not what
// was asked.
func TestAPodWithoutTheTokenHearsNothingOfARequest(t *testing.T) {
	for name, server := range map[string]*controlServer{
		"one that has another token":           newControlServer(podUIDOf, recorder(), laterToken),
		"one that has none":                    newControlServer(podUIDOf, recorder()),
		"one that is another pod of the owner": newControlServer("uid-of-another-pod", recorder(), controlToken),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, server, withProofs, knowingItsPod)
			res, body := w.do("POST", demo+"sync?name=secret", adminToken, strings.NewReader("a secret"))
			status := wantStatus(t, res, body, http.StatusBadGateway)
			if !strings.Contains(status.Message, "tell the operator") || w.lastReason() != refusal.CauseControl {
				t.Errorf("the caller hears %q, the log has %s", status.Message, w.lastReason())
			}
			if n, _ := server.count(); n != 0 {
				t.Errorf("the pod heard %v", server.seen)
			}
			if strings.Contains(server.heard.String(), controlToken) || strings.Contains(server.heard.String(), "v1 ") {
				t.Errorf("the pod heard %s", server.heard.String())
			}
		})
	}
}

// Whatever answers in place of a challenge, the request ends with a 502 of ours within bounds, and nothing of
// it is sent.
func TestChallengesThatAreNone(t *testing.T) {
	good := func(nonce string) string {
		c, err := controlproof.NewVerifier(podUIDOf).Challenge(nonce, []controlproof.Key{controlproof.NewKey(controlToken)})
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	answer := func(code int, header, body string) string {
		return fmt.Sprintf("HTTP/1.1 %d Code\r\n%sContent-Length: %d\r\n\r\n%s", code, header, len(body), body)
	}
	for name, c := range map[string]struct {
		answer func(nonce string) string
		reason string
	}{
		"a runner that is older":      {func(string) string { return answer(401, "", `{"code":"Unauthorized"}`) }, refusal.CauseControl},
		"a redirect":                  {func(string) string { return answer(302, "Location: /\r\n", "") }, refusal.CauseControl},
		"another protocol":            {func(string) string { return "SSH-2.0-OpenSSH\r\n" }, refusal.CauseControl},
		"no JSON":                     {func(string) string { return answer(200, "", "ok") }, refusal.CauseControl},
		"an empty object":             {func(string) string { return answer(200, "", "{}") }, refusal.CauseControl},
		"one for another nonce":       {func(string) string { return answer(200, "", good(controlproof.NewNonce())) }, refusal.CauseControl},
		"with an answer behind it":    {func(n string) string { return answer(200, "", good(n)) + answer(200, "", "evil") }, refusal.CauseControl},
		"with a wish to close":        {func(n string) string { return answer(200, "Connection: close\r\n", good(n)) }, refusal.CauseControl},
		"an endless header":           {func(string) string { return "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 16<<10) }, refusal.CauseControl},
		"a body larger than any":      {func(string) string { return answer(200, "", strings.Repeat(" ", 32<<10)) }, refusal.CauseControl},
		"a connection that ends":      {func(string) string { return "" }, refusal.CauseUnreachable},
		"an answer that breaks off":   {func(n string) string { return strings.TrimSuffix(answer(200, "", good(n)), "}") }, refusal.CauseControl},
		"informational ones, no more": {func(string) string { return strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 2) }, refusal.CauseControl},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var heard strings.Builder
			l := listen(t, func(conn net.Conn) {
				in := bufio.NewReader(conn)
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, c.answer(req.URL.Query().Get(controlproof.NonceParameter)))
				conn.(*net.TCPConn).CloseWrite()
				rest, _ := io.ReadAll(in)
				mu.Lock()
				defer mu.Unlock()
				heard.Write(rest)
			})
			w := newWorld(t, nil, withProofs, knowingItsPod, func(s *setup) { s.backendAddress = l })
			res, body := w.do("POST", demo+"sync", adminToken, strings.NewReader("a secret"))
			wantStatus(t, res, body, http.StatusBadGateway)
			if reason := w.lastReason(); reason != c.reason {
				t.Errorf("the log has %s, want %s", reason, c.reason)
			}
			mu.Lock()
			defer mu.Unlock()
			if heard.Len() > 0 {
				t.Errorf("the pod heard %q", heard.String())
			}
		})
	}
}

// listen serves each connection.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer conn.Close(); serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

func TestWhoGetsTheTokenItself(t *testing.T) {
	for name, c := range map[string]struct {
		changes []func(*setup)
		token   bool
	}{
		"by default every pod":                              {[]func(*setup){knowingItsPod}, true},
		"with proofs, a pod that was made before them":      {[]func(*setup){withProofs}, true},
		"with proofs, no pod that takes them":               {[]func(*setup){withProofs, knowingItsPod}, false},
		"with proofs, a pod whose variable is not its UID":  {[]func(*setup){withProofs, namedUID("metadata.name")}, true},
		"with proofs, a pod whose variable is a mere value": {[]func(*setup){withProofs, namedUID("")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got http.Header
			server := newControlServer(podUIDOf, recorder(), controlToken)
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != controlproof.ChallengePath {
					got = r.Header.Clone()
				}
				if c.token {
					recorder().ServeHTTP(w, r)
				} else {
					server.ServeHTTP(w, r)
				}
			}), c.changes...)
			w.received("POST", demo+"sync", "x")
			if hasToken, hasProof := got.Get(headers.ControlToken) == controlToken, got.Get(controlproof.Header) != ""; hasToken != c.token || hasProof == c.token {
				t.Errorf("the pod got %v", got)
			}
			w.received("GET", demo+"proxy/preview", "")
			if got.Get(headers.ControlToken)+got.Get(controlproof.Header) != "" && got.Get(headers.Prefix) != "" {
				t.Errorf("the app got %v", got)
			}
		})
	}
}

// namedUID tells the pod something else in the variable for its UID.
func namedUID(path string) func(*setup) {
	env := corev1.EnvVar{Name: controlproof.PodUIDVariable, Value: podUIDOf}
	if path != "" {
		env = corev1.EnvVar{Name: env.Name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	return func(s *setup) {
		s.changePod = func(pod *corev1.Pod) { pod.Spec.Containers[0].Env = []corev1.EnvVar{env} }
	}
}

// writeSecret has the demo's Secret hold these tokens; none deletes it.
func (w *world) writeSecret(tokens ...string) {
	w.t.Helper()
	ctx, secrets := context.Background(), w.runtime.CoreV1().Secrets(demoID.Namespace())
	if len(tokens) == 0 {
		if err := secrets.Delete(ctx, placement.ControlSecret, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	} else {
		secret := &corev1.Secret{ObjectMeta: fixture.Meta(demoID, placement.ControlSecret), Data: map[string][]byte{placement.ControlTokenKey: []byte(tokens[0])}}
		if len(tokens) > 1 {
			secret.Data[placement.ControlPreviousKey] = []byte(tokens[1])
		}
		_, err := secrets.Update(ctx, secret, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	eventually(w.t, "the data plane knows the Secret", func() bool {
		known := locate.Lookup[corev1.Secret](w.server.cache.Secrets, demoID.Namespace()+"/"+placement.ControlSecret)
		if known == nil || len(tokens) == 0 {
			return known == nil && len(tokens) == 0
		}
		previous := ""
		if len(tokens) > 1 {
			previous = tokens[1]
		}
		return string(known.Data[placement.ControlTokenKey]) == tokens[0] && string(known.Data[placement.ControlPreviousKey]) == previous
	})
}

// Between the moment at which the Secret changes and the one at which the pod has heard of it lie minutes. No
// request fails in them, and none that follows; a body is never sent to be refused.
func TestAControlTokenThatChangesFailsNoRequest(t *testing.T) {
	for name, c := range map[string]struct {
		steps []func(w *world, pod *controlServer)
	}{
		"a rotation": {[]func(*world, *controlServer){
			func(w *world, _ *controlServer) { w.writeSecret(laterToken, controlToken) },
			func(_ *world, pod *controlServer) { pod.has(laterToken, controlToken) },
			func(w *world, _ *controlServer) { w.writeSecret(laterToken) },
			func(_ *world, pod *controlServer) { pod.has(laterToken) },
		}},
		"a pod that hears of it first": {[]func(*world, *controlServer){
			func(_ *world, pod *controlServer) { pod.has(laterToken, controlToken) },
			func(w *world, _ *controlServer) { w.writeSecret(laterToken, controlToken) },
		}},
		"a deletion, and the same made again": {[]func(*world, *controlServer){
			func(w *world, _ *controlServer) { w.writeSecret() },
			func(w *world, _ *controlServer) { w.writeSecret(controlToken) },
		}},
		"an edit that the pod never hears of": {[]func(*world, *controlServer){
			func(w *world, _ *controlServer) { w.writeSecret(editedToken) },
			func(w *world, _ *controlServer) { w.writeSecret(controlToken) },
		}},
		"an edit that the pod hears of, and its mend": {[]func(*world, *controlServer){
			func(w *world, _ *controlServer) { w.writeSecret(editedToken) },
			func(_ *world, pod *controlServer) { pod.has(editedToken) },
			func(w *world, _ *controlServer) { w.writeSecret(controlToken) },
			func(_ *world, pod *controlServer) { pod.has(controlToken) },
		}},
		"a deletion, and another token": {[]func(*world, *controlServer){
			func(w *world, _ *controlServer) { w.writeSecret() },
			func(w *world, _ *controlServer) { w.writeSecret(laterToken) },
			func(_ *world, pod *controlServer) { pod.has(laterToken) },
		}},
		"a token that is no header's value": {[]func(*world, *controlServer){
			func(w *world, _ *controlServer) { w.writeSecret("a\r\nX-Evil: b") },
			func(w *world, _ *controlServer) { w.writeSecret(controlToken) },
		}},
	} {
		for _, mode := range []upstream.Mode{upstream.Direct, upstream.APIServer} {
			t.Run(name+" by "+string(mode), func(t *testing.T) {
				t.Parallel()
				server := newControlServer(podUIDOf, recorder(), controlToken)
				pod := httptest.NewServer(server)
				defer pod.Close()
				w := newWorld(t, nil, withProofs, knowingItsPod, by(mode, pod))
				requests := func() {
					t.Helper()
					for _, r := range []struct{ method, verb, body string }{{"POST", "sync", "a body"}, {"GET", "log", ""}, {"POST", "sync", ""}} {
						if got := w.received(r.method, demo+r.verb, r.body); got.Body != r.body {
							t.Errorf("the pod got %q", got.Body)
						}
					}
				}
				requests()
				for _, step := range c.steps {
					step(w, server)
					requests()
				}
				if strings.Contains(server.heard.String(), "Evil") {
					t.Error("a token has brought a header of its own")
				}
			})
		}
	}
}

// by has the demo reached in a mode; the API server is one that proxies to pods as the real one does.
func by(mode upstream.Mode, pod *httptest.Server) func(*setup) {
	return func(s *setup) {
		s.opts.Transport, s.backendAddress = mode, pod.Listener.Addr().String()
		s.apiServer = proxyToPods(pod)
	}
}

// proxyToPods is the API server's proxy of pods, which sends paths on in an encoding of its own.
func proxyToPods(pod *httptest.Server) http.Handler {
	target, _ := url.Parse(pod.URL)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, ok := strings.Cut(r.URL.Path, "/proxy")
		if !ok || !strings.Contains(r.URL.Path, "/namespaces/"+demoID.Namespace()+"/pods/pod-0:"+target.Port()+"/proxy") {
			http.NotFound(w, r)
			return
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "http", Host: target.Host, Path: utilnet.JoinPreservingTrailingSlash("/", rest), RawQuery: p.In.URL.RawQuery}
			if access.IsUpgrade(p.In.Header) {
				p.Out.URL.RawQuery = "" // apimachinery's UpgradeAwareHandler
			}
			p.Out.Header.Del("Authorization")
		}}).ServeHTTP(w, r)
	})
}

// A data plane that starts while a Secret is away, or is not as the pod has it, knows nothing of former tokens.
// It waits for the controllers a moment.
func TestAFreshDataPlaneWaitsForASecretThatIsBeingMended(t *testing.T) {
	for name, c := range map[string]struct{ before []string }{
		"one that is away":    {nil},
		"one that was edited": {[]string{editedToken}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newControlServer(podUIDOf, recorder(), controlToken)
			w := newWorld(t, server, withProofs, knowingItsPod, func(s *setup) { s.tokens = append([]string{}, c.before...) })
			got := w.later("POST", demo+"sync", "x")
			eventually(t, "the request waits", func() bool { return w.server.handler.wakes.Changes.Waiting() == 1 })
			w.writeSecret(controlToken)
			if got := <-got; got.code != http.StatusOK {
				t.Errorf("got %d %s", got.code, got.body)
			}
		})
	}
}

func TestAPlacementWithoutATokenIsAnOperatorsMatter(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.tokens = []string{} })
	res, body := w.do("POST", demo+"sync", adminToken, nil)
	wantStatus(t, res, body, http.StatusBadGateway)
	if reason := w.lastReason(); reason != refusal.CauseControl {
		t.Errorf("the log has %s", reason)
	}
	if res, body := w.do("GET", demo+"proxy", adminToken, nil); res.StatusCode != http.StatusOK {
		t.Errorf("the app, which has nothing to do with it: %d %s", res.StatusCode, body)
	}
}

// What a control server refuses concerns the provider: the caller's right is kcp's to judge, and the words
// are not for it.
func TestAControlServersRefusalIsOurs(t *testing.T) {
	for _, code := range []int{401, 403} {
		for _, upgrade := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, upgrade %t", code, upgrade), func(t *testing.T) {
				w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("WWW-Authenticate", "Basic realm=evil")
					w.Header().Set(controlproof.RefusedHeader, "<script>")
					w.WriteHeader(code)
					_, _ = io.WriteString(w, "the runner's own words")
				}))
				path := demo + "sync"
				method, change := "POST", func(*http.Request) {}
				if upgrade {
					method, path = "GET", demo+"echo"
					change = func(r *http.Request) {
						r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
						r.Header["Sec-Websocket-Version"], r.Header["Sec-Websocket-Key"] = []string{"13"}, []string{"dGhlIHNhbXBsZSBub25jZQ=="}
					}
				}
				res, body := w.do(method, path, adminToken, nil, change)
				wantStatus(t, res, body, http.StatusBadGateway)
				if strings.Contains(body, "own words") || res.Header.Get("WWW-Authenticate") != "" || res.Header.Get(controlproof.RefusedHeader) != "" {
					t.Errorf("the caller got %v %s", res.Header, body)
				}
				if strings.Contains(w.logs.String(), "script") || w.lastReason() != refusal.CauseControl {
					t.Errorf("the log has %s", w.lastReason())
				}
				if res, _ := w.do("GET", demo+"proxy", adminToken, nil); res.StatusCode != code {
					t.Errorf("the app's own %d became %d", code, res.StatusCode)
				}
			})
		}
	}
}

// The API server's proxy loses the query of an upgrade, which is the command of exec.
func TestAnUpgradeThroughTheAPIServerHasItsQuery(t *testing.T) {
	var query atomic.Value
	server := newControlServer(podUIDOf, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query.Store(r.URL.RawQuery + "," + r.Header.Get(controlproof.QueryHeader))
		switcher("", func(net.Conn, *bufio.Reader) {}).ServeHTTP(w, r)
	}), controlToken)
	pod := httptest.NewServer(server)
	defer pod.Close()
	for mode, want := range map[upstream.Mode]string{upstream.APIServer: ",command=a&command=b+c", upstream.Direct: "command=a&command=b+c,"} {
		w := newWorld(t, nil, withProofs, knowingItsPod, by(mode, pod))
		conn := w.dial()
		switched(t, conn, demo+"echo?command=a&command=b+c", "")
		conn.Close()
		if got := query.Load(); got != want {
			t.Errorf("%s: the pod got %q, want %q", mode, got, want)
		}
	}
}

// The API server makes one slash of several, and a proof is for the path that the pod is asked for.
func TestAProofIsForThePathThatReachesThePod(t *testing.T) {
	pod := httptest.NewServer(newControlServer(podUIDOf, recorder(), controlToken))
	defer pod.Close()
	for _, mode := range []upstream.Mode{upstream.Direct, upstream.APIServer} {
		w := newWorld(t, nil, withProofs, knowingItsPod, by(mode, pod))
		for _, tail := range []string{"", "/", "/a//b", "//", "/a/b//"} {
			if res, body := w.do("GET", demo+"log"+tail, adminToken, nil); res.StatusCode != http.StatusOK {
				t.Errorf("%s: log%s: %d %s", mode, tail, res.StatusCode, body)
			}
		}
	}
}

// A control server of somebody else's reads its token once, or again, and says only that it refuses.
func TestAPodThatTakesNoProofsIsTriedWithTheTokensItMayHave(t *testing.T) {
	var mu sync.Mutex
	has, calls := controlToken, 0
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if r.Header.Get(headers.ControlToken) != has {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		recorder().ServeHTTP(w, r)
	}))
	defer pod.Close()
	for _, mode := range []upstream.Mode{upstream.Direct, upstream.APIServer} {
		t.Run(string(mode), func(t *testing.T) {
			mu.Lock()
			has, calls = controlToken, 0
			mu.Unlock()
			w := newWorld(t, nil, by(mode, pod))
			w.received("GET", demo+"log", "")
			w.writeSecret(laterToken, controlToken)
			w.received("GET", demo+"log", "")
			w.writeSecret(laterToken) // which the pod has not heard of
			w.received("GET", demo+"log", "")
			mu.Lock()
			calls = 0
			mu.Unlock()
			w.received("POST", demo+"sync", "a body")
			mu.Lock()
			if calls != 1 {
				t.Errorf("a request cost %d, although it is known which token the pod takes", calls)
			}
			has = laterToken
			mu.Unlock()
			w.received("POST", demo+"sync", "")
			w.received("POST", demo+"sync", "a body")
		})
	}
}

// A runner that is started again in its pod is another process: through the API server, whose connections are
// not ours, that shows by its refusal alone.
func TestARunnerThatIsStartedAgainIsAskedAnew(t *testing.T) {
	for _, mode := range []upstream.Mode{upstream.Direct, upstream.APIServer} {
		t.Run(string(mode), func(t *testing.T) {
			var mu sync.Mutex
			server := newControlServer(podUIDOf, recorder(), controlToken)
			pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				now := server
				mu.Unlock()
				now.ServeHTTP(w, r)
			}))
			defer pod.Close()
			w := newWorld(t, nil, withProofs, knowingItsPod, by(mode, pod))
			for range 3 {
				w.received("GET", demo+"log", "")
				w.received("POST", demo+"sync", "")
				if mode == upstream.APIServer {
					w.received("POST", demo+"sync", "a body")
				}
				mu.Lock()
				server = newControlServer(podUIDOf, recorder(), controlToken)
				mu.Unlock()
			}
		})
	}
}

// A connection whose token the Secret has no more is not used again: the pod may have forgotten the token too.
func TestAConnectionEndsWithItsToken(t *testing.T) {
	server := newControlServer(podUIDOf, recorder(), controlToken, laterToken)
	w := newWorld(t, server, withProofs, knowingItsPod)
	for range 3 {
		w.received("GET", demo+"log", "")
	}
	if _, challenges := server.count(); challenges != 1 {
		t.Fatalf("%d challenges, want one for one connection", challenges)
	}
	w.writeSecret(laterToken, controlToken)
	w.received("GET", demo+"log", "")
	if _, challenges := server.count(); challenges != 1 {
		t.Errorf("%d challenges, although the former token is still good", challenges)
	}
	w.writeSecret(laterToken)
	w.received("GET", demo+"log", "")
	if _, challenges := server.count(); challenges != 2 {
		t.Errorf("%d challenges, want one more for the token that is left", challenges)
	}
}

// An attempt to find out whether there is a way to pods says nothing to them.
func TestAProbeSendsNothing(t *testing.T) {
	var mu sync.Mutex
	said := ""
	l := listen(t, func(conn net.Conn) {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		got, _ := io.ReadAll(conn)
		mu.Lock()
		defer mu.Unlock()
		said += string(got)
	})
	w := newWorld(t, nil, withProofs, knowingItsPod, func(s *setup) { s.backendAddress = l })
	to := fixture.ToControl
	to.Proves = true
	if err := w.server.handler.ways.Reach(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if said != "" {
		t.Errorf("it said %q", said)
	}
}
