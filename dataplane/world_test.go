// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

func TestMain(m *testing.M) {
	if servePeer() {
		return
	}
	ctrllog.SetLogger(logr.Discard()) // for the certificate watcher, which warns without
	// The library of the audit log has one goroutine per file, for the life of the process.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

const (
	adminToken   = "token-of-the-admin-3f1c"
	controlToken = fixture.ControlToken
	// providerToken is the provider's own credential.
	providerToken = "token-of-the-provider-77e0"
	demo          = "/dataplane/clusters/root:acme:dev/sandboxrunners/demo/"
)

var (
	runners   = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"}
	demoID    = fixture.DemoID
	demoOwner = fixture.DemoOwner
)

// world is a data plane with real HTTP on both sides: callers in front, pods behind. kcp and the
// clusters' APIs are fakes.
type world struct {
	t       testing.TB
	kcp     *fakeKCP
	runtime kubernetes.Interface
	kros    dynamic.Interface
	// provider is the API of the provider workspace.
	provider dynamic.Interface
	server   *Server
	url      string
	metrics  string
	logs     *syncBuffer
	client   *http.Client
	stop     func() error
}

// syncBuffer is a buffer that many goroutines write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// setup is what a test may change of a world before it starts.
type setup struct {
	opts      Options
	template  *sandbarv1alpha1.Template
	backend   http.Handler
	apiServer http.Handler
	status    map[string]any
	objects   []runtime.Object
	kros      []runtime.Object
	// provider is in the provider workspace besides the Template.
	provider []runtime.Object
	// nowhere makes the demo's endpoints unreachable.
	backendAddress string
	// changePod changes the demo's pod.
	changePod func(*corev1.Pod)
	// tokens are those of the demo's Secret; empty and not nil means that there is no Secret.
	tokens []string
	// suspended says why the demo is suspended; then no pod of it is ready.
	suspended sandbarv1alpha1.SuspensionCause
	// logLevel is LevelDebug unless a test changes it.
	logLevel slog.Level
}

func newWorld(t testing.TB, backend http.Handler, changes ...func(*setup)) *world {
	t.Helper()
	s := &setup{
		opts: Options{
			ListenAddress: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0", Insecure: true, Transport: upstream.Direct,
			DrainDelay: time.Millisecond, DrainTimeout: 5 * time.Second,
		},
		template: runnerTemplate(), backend: backend, logLevel: slog.LevelDebug, apiServer: http.NotFoundHandler(), status: demoStatus(demoID.Namespace()),
	}
	for _, change := range changes {
		change(s)
	}
	w := &world{t: t, kcp: newFakeKCP(t), logs: &syncBuffer{}}
	w.kcp.grant(adminToken, "*")
	w.kcp.addInstance("cluster1", "default", "demo", demoID.UID)
	s.opts.Logger = slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: s.logLevel}))

	if s.backendAddress == "" {
		pod := httptest.NewServer(s.backend)
		t.Cleanup(pod.Close)
		s.backendAddress = pod.Listener.Addr().String()
	}
	objects, instance := fixture.Objects(t, demoID, "demo", s.backendAddress), kroInstance(demoID, "demo", s.status)
	objects = s.adapt(objects)
	if s.suspended != "" {
		putToSleep(objects, instance, s.suspended)
	}
	w.runtime = fake.NewClientset(append(objects, s.objects...)...)
	scheme := runtime.NewScheme()
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	lists := map[schema.GroupVersionResource]string{runners: "SandboxRunnerList", runners.GroupVersion().WithResource("sandboxes"): "SandboxList"}
	w.kros = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, append(s.kros, instance)...)
	w.provider = dynamicfake.NewSimpleDynamicClient(scheme, append(s.provider, s.template)...)

	apiServer := httptest.NewServer(s.apiServer)
	t.Cleanup(apiServer.Close)
	toKCP := &rest.Config{
		Host: w.kcp.URL + "/clusters/root:sandbar", BearerToken: providerToken,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	bound, err := tenant.NewVirtualWorkspace(toKCP, "sandbar.dev", s.opts.Logger)
	if err != nil {
		t.Fatal(err)
	}
	asCaller, err := tenant.New(toKCP, bound)
	if err != nil {
		t.Fatal(err)
	}
	s.opts.SetDefaults()
	if err := s.opts.Validate(); err != nil && s.opts.CertFile == "" {
		t.Fatal(err)
	}
	w.server, err = assemble(s.opts, w.provider, w.runtime, w.kros, asCaller, bound, &rest.Config{Host: apiServer.URL, BearerToken: "runtime-credential"})
	if err != nil {
		t.Fatal(err)
	}
	w.server.handler.ways.PermitForTest(func(netip.Addr) bool { return true })
	w.start()
	return w
}

// adapt changes the objects of the demo's placement as a test wants them.
func (s *setup) adapt(objects []runtime.Object) (adapted []runtime.Object) {
	for _, obj := range objects {
		switch o := obj.(type) {
		case *corev1.Pod:
			if s.changePod != nil {
				s.changePod(o)
			}
		case *corev1.Secret:
			switch {
			case s.tokens == nil:
			case len(s.tokens) == 0:
				continue
			default:
				o.Data[placement.ControlTokenKey] = []byte(s.tokens[0])
			}
		}
		adapted = append(adapted, obj)
	}
	return adapted
}

func (w *world) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	addresses := make(chan [2]string, 1)
	w.server.listening = func(verbs, metrics net.Addr) { addresses <- [2]string{verbs.String(), metrics.String()} }
	ended := make(chan error, 1)
	go func() { ended <- w.server.Run(ctx) }()
	select {
	case err := <-ended:
		cancel()
		w.t.Fatalf("the server ended: %v", err)
	case got := <-addresses:
		w.url, w.metrics = "http://"+got[0], "http://"+got[1]
	}
	w.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	transport := &http.Transport{DisableCompression: true}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := w.stop(); err != nil {
			w.t.Errorf("the server ended with %v", err)
		}
	})
	eventually(w.t, "the server is ready", func() bool {
		res, err := w.client.Get(w.metrics + pathReady)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// eventually polls a real server until it is as it should be.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("timed out before %s", what)
}

// do sends a request as a caller; the body of the answer is read whole.
func (w *world) do(method, path, token string, body io.Reader, change ...func(*http.Request)) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, c := range change {
		c(req)
	}
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("%s %s: reading the answer: %v", method, path, err)
	}
	return res, string(data)
}

// wantStatus checks that an answer is a metav1.Status with a code.
func wantStatus(t *testing.T, res *http.Response, body string, code int) metav1.Status {
	t.Helper()
	if res.StatusCode != code {
		t.Fatalf("got %d %s, want %d", res.StatusCode, body, code)
	}
	if got := res.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("a browser may guess what the answer is: %q", got)
	}
	var status metav1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatalf("the answer is no JSON: %v: %s", err, body)
	}
	if status.Kind != "Status" || status.APIVersion != "v1" || status.Status != metav1.StatusFailure || int(status.Code) != code || status.Message == "" {
		t.Errorf("not a metav1.Status: %s", body)
	}
	return status
}

func runnerTemplate() *sandbarv1alpha1.Template {
	const control, preview = "status.controlServiceRef", "status.previewServiceRef"
	return &sandbarv1alpha1.Template{
		TypeMeta:   metav1.TypeMeta{APIVersion: "sandbar.dev/v1alpha1", Kind: "Template"},
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox-runner"},
		Spec: sandbarv1alpha1.TemplateSpec{
			DisplayName: "Sandbox runner", Version: "0.1.0", Graph: runtime.RawExtension{Raw: []byte(`{"secret":"graph"}`)},
			DataPlane: sandbarv1alpha1.DataPlane{
				TokenSecretRef: "status.controlSecretRef",
				Endpoints: map[string]sandbarv1alpha1.Endpoint{
					"log":    {ServiceRef: control, Port: "control", UpstreamPath: "/logs", Methods: []string{"GET"}, Stream: true},
					"sync":   {ServiceRef: control, Port: "control", UpstreamPath: "/sync", Methods: []string{"POST"}},
					"echo":   {ServiceRef: control, Port: "control", UpstreamPath: "/echo", Methods: []string{"GET"}, Upgrade: true},
					"proxy":  {ServiceRef: preview, Port: "preview", UpstreamPath: "/", Methods: []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, Upgrade: true},
					"podlog": {PodRef: "status.podRef", PodSubresource: "log", Methods: []string{"GET"}, Stream: true},
					"status": {From: "instanceStatus", Methods: []string{"GET"}},
				},
				Components: map[string]sandbarv1alpha1.Component{
					"api": {Endpoints: map[string]sandbarv1alpha1.Endpoint{
						"restart": {ServiceRef: control, Port: "control", UpstreamPath: "/api/restart", Methods: []string{"POST"}},
					}},
				},
			},
		},
		Status: sandbarv1alpha1.TemplateStatus{
			Kind: "SandboxRunner", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners",
			Conditions: []metav1.Condition{{Type: sandbarv1alpha1.TemplateExported, Status: metav1.ConditionTrue, Reason: "Exported"}},
		},
	}
}

func demoStatus(namespace string) map[string]any {
	ref := func(name string) map[string]any { return map[string]any{"name": name, "namespace": namespace} }
	return map[string]any{
		"state": "ACTIVE", "controlServiceRef": ref("control"), "previewServiceRef": ref("preview"),
		"controlSecretRef": ref("sandbar-control"), "podRef": ref("pod-0"),
	}
}

func kroInstance(id placement.ID, name string, status map[string]any) *unstructured.Unstructured {
	labels := map[string]any{}
	for k, v := range id.Labels("sandbox-runner") {
		labels[k] = v
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
		"metadata": map[string]any{"name": name, "namespace": id.Namespace(), "labels": labels},
		"spec":     map[string]any{"startCommand": "npm start", "suspended": false},
		"status":   status,
	}}
}

// newPlacement places another instance under a name, and waits until the data plane knows.
func (w *world) newPlacement(id placement.ID, name, address string) {
	w.t.Helper()
	ctx := context.Background()
	for _, obj := range fixture.Objects(w.t, id, name, address) {
		var err error
		switch o := obj.(type) {
		case *corev1.Namespace:
			_, err = w.runtime.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.Secret:
			_, err = w.runtime.CoreV1().Secrets(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *corev1.Pod:
			_, err = w.runtime.CoreV1().Pods(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *corev1.Service:
			_, err = w.runtime.CoreV1().Services(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *discoveryv1.EndpointSlice:
			_, err = w.runtime.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	instance := kroInstance(id, name, demoStatus(id.Namespace()))
	if _, err := w.kros.Resource(runners).Namespace(id.Namespace()).Create(ctx, instance, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the data plane knows the placement", func() bool {
		k := w.server.kinds.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"})
		return k.Instances.Get(id.Namespace(), name) != nil && len(slices.Collect(w.server.cache.EndpointSlices(id.Namespace(), "preview"))) > 0 &&
			locate.Lookup[corev1.Pod](w.server.cache.Pods, id.Namespace()+"/pod-0") != nil &&
			locate.Lookup[corev1.Namespace](w.server.cache.Namespaces, id.Namespace()) != nil
	})
}

// refusalReason finds the reason in the access line that was written last.
func (w *world) lastReason() string {
	w.t.Helper()
	lines := strings.Split(strings.TrimSpace(w.logs.String()), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		var line struct{ Msg, Reason string }
		if json.Unmarshal([]byte(lines[i]), &line) == nil && line.Msg == "request" {
			return line.Reason
		}
	}
	return ""
}
