// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/podexec"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// podVerbs gives the kind the verbs of a Pod without a runner, on the Pod that status.podRef names.
func podVerbs(s *setup) {
	stream := func(subresource string) sandbarv1alpha1.Endpoint {
		return sandbarv1alpha1.Endpoint{PodRef: "status.podRef", PodSubresource: subresource, Methods: []string{"GET"}, Upgrade: true}
	}
	pinned := stream(contract.PodExec)
	pinned.Container = "main"
	proxy := sandbarv1alpha1.Endpoint{PodRef: "status.podRef", PodSubresource: contract.PodProxy, Methods: []string{"GET", "POST"}, Upgrade: true}
	endpoints := s.template.Spec.DataPlane.Endpoints
	endpoints["exec"], endpoints["attach"], endpoints["port-forward"] = stream(contract.PodExec), stream(contract.PodAttach), stream(contract.PodPortForward)
	endpoints["main-exec"], endpoints["proxy"] = pinned, proxy
}

// podAPI is an API server whose Pods' streams echo, and the last request to it.
type podAPI struct {
	asked atomic.Pointer[http.Request]
	// answer, if set, answers in place of the echo.
	answer http.HandlerFunc
}

func (a *podAPI) serve(s *setup) { s.apiServer = a }

func (a *podAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Store(r)
	if a.answer != nil {
		a.answer(w, r)
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io", upstream.PortForwardProtocol}}
	conn, err := up.Upgrade(w, r, http.Header{"Audit-Id": {"x"}, "Set-Cookie": {"a=b"}})
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		kind, data, err := conn.ReadMessage()
		if err != nil {
			return
		}
		if err := conn.WriteMessage(kind, data); err != nil {
			return
		}
	}
}

// askedFor is what the API server was asked for, but for the mark of a command.
func askedFor(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	query := r.URL.Query()
	if command := query["command"]; len(command) > 2 && command[0] == "env" && strings.HasPrefix(command[1], podexec.Variable+"=") {
		query["command"] = command[2:]
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func (w *world) asAdmin() http.Header { return http.Header{"Authorization": {"Bearer " + adminToken}} }

func TestAPodsStreamsReachTheAPIServerWithWhatWasLookedAtAlone(t *testing.T) {
	pods := "/api/v1/namespaces/" + demoID.Namespace() + "/pods/pod-0/"
	for name, c := range map[string]struct{ path, protocol, want string }{
		"exec": {
			"exec?command=sh&command=-c&command=a%20%26%20b%3Fx%3D%2F..&command=&stdin=true&stdout=1&stderr=false&tty=0", "v5.channel.k8s.io",
			pods + "exec?command=sh&command=-c&command=a+%26+b%3Fx%3D%2F..&command=&container=main&stdin=true&stdout=true",
		},
		"exec in the container that the Template names": {"main-exec?command=sh&stdout=true&container=main", "v5.channel.k8s.io", pods + "exec?command=sh&container=main&stdout=true"},
		"attach":       {"attach?stdin=true&tty=true&container=main", "v5.channel.k8s.io", pods + "attach?container=main&stdin=true&tty=true"},
		"port-forward": {"port-forward", upstream.PortForwardProtocol, pods + "portforward"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &podAPI{}
			w := newWorld(t, recorder(), podVerbs, api.serve)
			header := w.asAdmin()
			for _, extra := range []string{"Impersonate-User", "X-Remote-User", "Cookie", "X-Stream-Protocol-Version", "X-Anything", "Accept"} {
				header.Set(extra, "v4.channel.k8s.io")
			}
			header.Set("Origin", "https://evil.example")
			conn, res := w.websocket(demo+c.path, header, c.protocol)
			wantEcho(t, conn, "\x00hello")
			asked := api.asked.Load()
			if got := askedFor(asked); got != c.want {
				t.Errorf("asked for\n%s, want\n%s", got, c.want)
			}
			for _, gone := range []string{"Sec-Websocket-Key", "User-Agent"} {
				asked.Header.Del(gone)
			}
			want := http.Header{
				"Authorization": {"Bearer runtime-credential"}, "Connection": {"Upgrade, close"}, "Upgrade": {"websocket"},
				"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Protocol": {c.protocol},
			}
			if diff := cmp.Diff(want, asked.Header); diff != "" {
				t.Errorf("headers to the API server (-want +got):\n%s", diff)
			}
			if res.Header.Get("Audit-Id") != "" || res.Header.Get("Set-Cookie") != "" {
				t.Errorf("the API server's own headers came through: %v", res.Header)
			}
		})
	}
}

// wantRefused sends a handshake by hand, and wants a metav1.Status and nobody asked.
func (w *world) wantRefused(t *testing.T, api *podAPI, request string, code int, says string) *http.Response {
	t.Helper()
	conn := w.dial()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	if status := wantStatus(t, res, string(body), code); !strings.Contains(status.Message, says) {
		t.Errorf("the refusal says %q, want something of %q", status.Message, says)
	}
	if asked := api.asked.Load(); asked != nil {
		t.Errorf("the API server was asked for %s", asked.RequestURI)
	}
	return res
}

func TestQueriesOfAPodsStreamsAreStrict(t *testing.T) {
	api := &podAPI{}
	w := newWorld(t, recorder(), podVerbs, api.serve)
	long := "exec?stdout=true" + strings.Repeat("&command=x", 1000+1)
	for query, says := range map[string]string{
		"exec?stdout=true":                                          "command is missing",
		"exec?command=&stdout=true":                                 "must not be empty",
		"exec?command=sh":                                           "at least one of stdin",
		"exec?command=sh&stdout=true&command=a%00b":                 "without NUL",
		"exec?command=sh&stdout=true&command=%ff":                   "UTF-8",
		"exec?command=sh&stdout=true&stdout=false":                  "stdout must be true or false, once",
		"exec?command=sh&stdout=yes":                                "stdout must be true or false",
		"exec?command=sh&stdout=true&container=../..":               "name of a container",
		"exec?command=sh&stdout=true&container=main%2f..%2fsecret":  "name of a container",
		"exec?command=sh&stdout=true&container=main&container=x":    "once",
		"exec?command=sh&stdout=true&container=":                    "name of a container",
		"exec?command=sh&stdout=true&container=other":               "one of main, side",
		"main-exec?command=sh&stdout=true&container=side":           "must be main",
		"exec?command=sh&stdout=true&previous=true":                 "and no others",
		"exec?command=sh&stdout=true&Command=rm":                    "and no others",
		"exec?command=sh;stdout=true":                               "percent-encoded",
		"exec?command=sh&stdout=true;container=x":                   "percent-encoded",
		"exec/../attach?stdout=true":                                "must not contain",
		"exec/x?command=sh&stdout=true":                             "no paths below it",
		"attach?stdout=true&command=sh":                             "takes no command",
		"port-forward?ports=22":                                     "takes no parameters",
		"port-forward/proxy":                                        "no paths below it",
		long:                                                        "1000 arguments",
		"exec?stdout=true&command=" + strings.Repeat("x", 16<<10+1): "16384 bytes",
	} {
		t.Run(query[:min(len(query), 60)], func(t *testing.T) {
			protocol := "v5.channel.k8s.io"
			if strings.HasPrefix(query, "port-forward") {
				protocol = upstream.PortForwardProtocol
			}
			w.wantRefused(t, api, "GET "+demo+query+" HTTP/1.1\r\n"+handshakeLines+"Sec-WebSocket-Protocol: "+protocol+"\r\n\r\n", 400, says)
		})
	}
	t.Run("a container that has ended", func(t *testing.T) {
		w.wantRefused(t, api, "GET "+demo+"exec?command=sh&stdout=true&container=side HTTP/1.1\r\n"+handshakeLines+"Sec-WebSocket-Protocol: "+"v5.channel.k8s.io"+"\r\n\r\n", 409, "does not run")
	})
}

func TestWhatIsNotTheWebSocketOfAPodsStreamIsRefusedWithWhatIs(t *testing.T) {
	api := &podAPI{}
	w := newWorld(t, recorder(), podVerbs, api.serve)
	const auth = "Host: x\r\nAuthorization: Bearer " + adminToken + "\r\n"
	const ws = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	exec := demo + "exec?command=sh&stdout=true HTTP/1.1\r\n" + auth
	for name, c := range map[string]struct {
		request string
		code    int
		offers  string
	}{
		"a plain GET":  {"GET " + exec, 426, "v5.channel.k8s.io"},
		"a plain POST": {"POST " + exec + "Content-Length: 0\r\n", 426, "v5.channel.k8s.io"},
		"SPDY": {
			"POST " + exec + "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n", 426, "v5.channel.k8s.io",
		},
		"SPDY to port-forward":          {"POST " + demo + "port-forward HTTP/1.1\r\n" + auth + "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n", 426, upstream.PortForwardProtocol},
		"a WebSocket with POST":         {"POST " + exec + ws + key + "Content-Length: 0\r\n", 400, ""},
		"no subprotocol":                {"GET " + exec + ws + key, 400, "v5.channel.k8s.io"},
		"older subprotocols":            {"GET " + exec + ws + key + "Sec-WebSocket-Protocol: v4.channel.k8s.io, channel.k8s.io\r\n", 400, "v5.channel.k8s.io"},
		"the runner's subprotocol":      {"GET " + exec + ws + key + "Sec-WebSocket-Protocol: v1.exec.sandbar.dev\r\n", 400, "v5.channel.k8s.io"},
		"one that begins like ours":     {"GET " + exec + ws + key + "Sec-WebSocket-Protocol: v5.channel.k8s.io.evil\r\n", 400, "v5.channel.k8s.io"},
		"one in capitals":               {"GET " + exec + ws + key + "Sec-WebSocket-Protocol: V5.CHANNEL.K8S.IO\r\n", 400, "v5.channel.k8s.io"},
		"that of another verb":          {"GET " + demo + "port-forward HTTP/1.1\r\n" + auth + ws + key + "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n", 400, upstream.PortForwardProtocol},
		"two keys":                      {"GET " + exec + ws + key + key + "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n", 400, ""},
		"a key that is none":            {"GET " + exec + ws + "Sec-WebSocket-Key: x\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n", 400, ""},
		"another version of WebSockets": {"GET " + exec + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n" + key + "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n", 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			res := w.wantRefused(t, api, c.request+"\r\n", c.code, "")
			if got := res.Header.Get(access.ProtocolHeader); got != c.offers {
				t.Errorf("the refusal offers %q, want %q", got, c.offers)
			}
			if got := res.Header.Get("Upgrade"); (got == "websocket") != (c.code == 426) {
				t.Errorf("a %d with Upgrade %q", c.code, got)
			}
		})
	}
}

func TestOnlyKnownSubprotocolsReachTheAPIServer(t *testing.T) {
	api := &podAPI{}
	w := newWorld(t, recorder(), podVerbs, api.serve)
	token := access.BearerProtocolPrefix + base64.RawURLEncoding.EncodeToString([]byte(adminToken))
	conn, _ := w.websocket(demo+"exec?command=sh&stdout=true", nil, "v4.channel.k8s.io", token, "v5.channel.k8s.io", "v5.channel.k8s.io")
	wantEcho(t, conn, "hello")
	if got := api.asked.Load().Header[access.ProtocolHeader]; !slices.Equal(got, []string{"v5.channel.k8s.io"}) {
		t.Errorf("the API server was offered %q", got)
	}
}

func TestAnswersOfTheAPIServerToAPodsStream(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		code   int
	}{
		"no such pod, yet":          {"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\npods pod-0", 409},
		"a container that is gone":  {"HTTP/1.1 400 Bad Request\r\nContent-Length: 10\r\n\r\npods pod-0", 409},
		"a right that it lacks":     {"HTTP/1.1 403 Forbidden\r\nContent-Length: 10\r\n\r\npods pod-0", 502},
		"a kubelet that is away":    {"HTTP/1.1 500 Oops\r\nContent-Length: 10\r\n\r\npods pod-0", 502},
		"a redirect":                {"HTTP/1.1 307 Temporary Redirect\r\nLocation: https://10.0.0.1:10250/\r\nContent-Length: 0\r\n\r\n", 502},
		"an answer without upgrade": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 502},
		"no subprotocol":            {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n", 502},
		"another subprotocol":       {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: channel.k8s.io\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			api := &podAPI{answer: func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					panic(err)
				}
				defer conn.Close()
				_, _ = io.WriteString(conn, c.answer)
			}}
			w := newWorld(t, recorder(), podVerbs, api.serve)
			dialer := websocket.Dialer{Subprotocols: []string{"v5.channel.k8s.io"}}
			_, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+demo+"exec?command=sh&stdout=true", w.asAdmin())
			if err == nil || res == nil {
				t.Fatalf("got %v, %v", res, err)
			}
			body, _ := io.ReadAll(res.Body)
			wantStatus(t, res, string(body), c.code)
			for _, secret := range []string{"pod-0", "10.0.0.1", "10250", demoID.Namespace()} {
				if strings.Contains(string(body), secret) || strings.Contains(fmt.Sprint(res.Header), secret) {
					t.Errorf("the answer tells %s: %s %v", secret, body, res.Header)
				}
			}
		})
	}
}

// A status that lies must not give a shell in another's pod.
func TestAPodOfAnotherPlacementIsNotReached(t *testing.T) {
	other := placement.ID{Origin: "cluster2", UID: "uid-other"}
	unlabelled := fixture.Pod(demoID, "stranger", "127.0.0.1", 80)
	unlabelled.Labels = nil
	foreign := fixture.Pod(other, "pod-1", "127.0.0.1", 80)
	smuggled := fixture.Pod(other, "smuggled", "127.0.0.1", 80)
	smuggled.Namespace = demoID.Namespace()
	onNode := fixture.Pod(demoID, "on-node", "127.0.0.1", 80)
	onNode.Spec.HostNetwork = true
	for name, c := range map[string]struct {
		ref   map[string]any
		paths []string
		code  int
	}{
		"in another namespace":                {map[string]any{"name": "pod-1", "namespace": other.Namespace()}, nil, 502},
		"with another instance's UID":         {map[string]any{"name": "smuggled", "namespace": demoID.Namespace()}, nil, 502},
		"without a label":                     {map[string]any{"name": "stranger", "namespace": demoID.Namespace()}, nil, 409},
		"by a path":                           {map[string]any{"name": "../../kube-system/pods/x", "namespace": demoID.Namespace()}, nil, 409},
		"the ports of its node, by a network": {map[string]any{"name": "on-node", "namespace": demoID.Namespace()}, []string{"port-forward", "ports/10250/proxy"}, 502},
	} {
		t.Run(name, func(t *testing.T) {
			api := &podAPI{}
			w := newWorld(t, recorder(), podVerbs, api.serve, func(s *setup) {
				s.objects = []runtime.Object{unlabelled, foreign, smuggled, onNode}
				s.status["podRef"] = c.ref
			})
			paths := c.paths
			if paths == nil {
				paths = []string{"exec?command=sh&stdout=true", "attach?stdout=true", "port-forward", "ports/80/proxy"}
			}
			for _, path := range paths {
				w.wantRefused(t, api, "GET "+demo+path+" HTTP/1.1\r\n"+handshakeLines+"Sec-WebSocket-Protocol: "+"v5.channel.k8s.io"+", "+upstream.PortForwardProtocol+"\r\n\r\n", c.code, "")
			}
		})
	}
}

// With get, which roles for reading have on */* too, nobody gets a shell.
func TestAnUpgradeAsksForCreate(t *testing.T) {
	const reader, runner = "token-of-a-reader", "token-of-a-runner"
	w := newWorld(t, echoWebSocket(), podVerbs, (&podAPI{}).serve, func(s *setup) {
		s.template.Spec.DataPlane.Endpoints["proxy"] = runnerTemplate().Spec.DataPlane.Endpoints["proxy"]
	})
	var gets, creates []string
	for _, verb := range []string{"exec", "attach", "port-forward", "echo", "proxy", "log"} {
		gets, creates = append(gets, "get sandboxrunners/"+verb), append(creates, "create sandboxrunners/"+verb)
	}
	w.kcp.grant(reader, append(gets, "get sandboxrunners")...)
	w.kcp.grant(runner, append(creates, "get sandboxrunners")...)
	for path, wants := range map[string]string{
		"exec?command=sh&stdout=true": runner, "attach?stdout=true": runner, "port-forward": runner, "echo": runner, "proxy": reader,
	} {
		for _, token := range []string{reader, runner} {
			t.Run(path+" by "+token, func(t *testing.T) {
				dialer := websocket.Dialer{Subprotocols: []string{"v5.channel.k8s.io", upstream.PortForwardProtocol}}
				conn, res, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(w.url, "http")+demo+path, http.Header{"Authorization": {"Bearer " + token}})
				if err == nil {
					conn.Close()
				}
				if (err == nil) != (token == wants) || (err != nil && res.StatusCode != http.StatusForbidden) {
					t.Errorf("got %v (%v)", err, res)
				}
			})
		}
	}
	if res, body := w.do("GET", demo+"log", reader, nil); res.StatusCode == http.StatusForbidden {
		t.Errorf("a plain GET of the log is refused: %s", body)
	}
}

func TestAWithdrawnRightEndsAShell(t *testing.T) {
	w := newWorld(t, recorder(), podVerbs, (&podAPI{}).serve)
	w.watched()
	const token = "token-of-somebody"
	w.kcp.grant(token, "get sandboxrunners", "create sandboxrunners/exec")
	conn, _ := w.websocket(demo+"exec?command=sh&stdout=true", http.Header{"Authorization": {"Bearer " + token}}, "v5.channel.k8s.io")
	wantEcho(t, conn, "hello")
	w.kcp.grant(token, "get sandboxrunners", "get sandboxrunners/exec")
	w.putOffLooks()
	_ = conn.SetReadDeadline(time.Now().Add(4 * time.Second)) // with the wait below, less than to the next look
	// The look that a timer takes every 15 to 25 seconds, now.
	w.server.handler.live.recheck("cluster1", demoID.UID, time.Now())
	if _, _, err := conn.ReadMessage(); err == nil {
		t.Fatal("the shell says something")
	}
	eventually(t, "the access line says why", func() bool { return w.lastReason() == refusal.CauseCut })
}

func TestAnyPortOfAPodIsReached(t *testing.T) {
	for _, mode := range []upstream.Mode{upstream.Direct, upstream.Auto} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, recorder(), podVerbs, func(s *setup) { s.opts.Transport = mode })
			_, port, _ := net.SplitHostPort(portOf(w))
			for path, want := range map[string]string{
				"ports/" + port + "/proxy/a%2Fb?x=1": "/a%2Fb?x=1", "ports/http/proxy/x": "/x", "ports/http/proxy": "/",
			} {
				res, body := w.do("GET", demo+path, adminToken, nil)
				if res.StatusCode != http.StatusOK || !strings.Contains(body, want) {
					t.Errorf("%s: got %d %s", path, res.StatusCode, body)
				}
			}
			for path, code := range map[string]int{
				"proxy": 400, "ports/1/proxy": 502, "ports/dns/proxy": 404, "ports/nosuch/proxy": 404,
				"ports/" + port + "/log": 404, "ports/" + port + "/podlog": 404, "ports/" + port + "/exec": 404, "ports/0/proxy": 400,
			} {
				res, body := w.do("GET", demo+path, adminToken, nil)
				wantStatus(t, res, body, code)
			}
		})
	}
	t.Run("through the API server", func(t *testing.T) {
		api := &podAPI{answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"login", http.StatusFound)
		}}
		w := newWorld(t, recorder(), podVerbs, api.serve, func(s *setup) { s.opts.Transport = upstream.APIServer })
		res, body := w.do("GET", demo+"ports/8080/proxy/a/?x=1", adminToken, nil)
		if got, want := api.asked.Load().RequestURI, "/api/v1/namespaces/"+demoID.Namespace()+"/pods/pod-0:8080/proxy/a/?x=1"; got != want {
			t.Errorf("asked for %s, want %s (%d %s)", got, want, res.StatusCode, body)
		}
		if got, want := res.Header.Get("Location"), demo+"ports/8080/proxy/a/login"; got != want {
			t.Errorf("the redirect leads to %s, want %s", got, want)
		}
	})
	t.Run("a default of the Template's", func(t *testing.T) {
		w := newWorld(t, recorder(), podVerbs, func(s *setup) {
			e := s.template.Spec.DataPlane.Endpoints["proxy"]
			e.Port = "http"
			s.template.Spec.DataPlane.Endpoints["proxy"] = e
		})
		if res, body := w.do("GET", demo+"proxy/x", adminToken, nil); res.StatusCode != http.StatusOK {
			t.Errorf("got %d %s", res.StatusCode, body)
		}
	})
}

// portOf is the address at which the demo's pod serves.
func portOf(w *world) string {
	for _, address := range w.server.handler.ways.AddressesForTest(fixture.ToPreview) {
		return address
	}
	return ""
}
