// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// Somebody who writes the status of instances, which is what a provider does, tries to have the caller's credential, or to
// have a call of the caller's arrive elsewhere.

// liar is a workspace whose provider lies: its status names address, of the caller's instance web in the cluster c1.
type liar struct {
	t       *testing.T
	kcp     *httptest.Server
	address func(look int) string
	looks   int
}

func newLiar(t *testing.T, address func(look int) string) *liar {
	t.Helper()
	l := &liar{t: t, address: address}
	l.kcp = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.looks++
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
			"metadata": map[string]any{"name": "web", "namespace": "default", "annotations": map[string]any{"kcp.io/cluster": "c1"}},
			"status":   map[string]any{"phase": "Ready", "dataPlane": map[string]any{"url": l.address(l.looks)}},
		})
	}))
	t.Cleanup(l.kcp.Close)
	return l
}

func (l *liar) instance(change func(*rest.Config), trusted ...client.DataPlane) (*client.Instance, error) {
	l.t.Helper()
	cfg := &rest.Config{Host: l.kcp.URL + "/clusters/root:me", BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(l.kcp)}}
	if change != nil {
		change(cfg)
	}
	c, err := client.New(cfg, trusted...)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c.Instance(l.t.Context(), client.SandboxRunners, "default", "web")
}

const ownPath = "/dataplane/clusters/c1/namespaces/default/sandboxrunners/web"

// TestAStatusThatLiesGetsNothing: what a status names beside the trusted hosts, and beside the instance itself on one that is
// trusted, is called by nobody.
func TestAStatusThatLiesGetsNothing(t *testing.T) {
	called := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s%s was called with %q", r.Host, r.URL, r.Header.Get("Authorization"))
	})
	plane, other, plain := httptest.NewTLSServer(called), httptest.NewTLSServer(called), httptest.NewServer(called)
	defer plane.Close()
	defer other.Close()
	defer plain.Close()
	host := strings.TrimPrefix(plane.URL, "https://")
	_, port, _ := net.SplitHostPort(host)
	const untrusted, elsewhere, invalid = "is not trusted with your credential", "which is that of something else: nothing was sent there", "is not an https URL"
	for name, c := range map[string]struct{ address, refusal string }{
		"another host, whose certificate is as good":    {other.URL + ownPath, untrusted},
		"another port of the host":                      {"https://127.0.0.1:1" + ownPath, untrusted},
		"another name of the host":                      {"https://localhost:" + port + ownPath, untrusted},
		"a name that begins with the host":              {"https://127.0.0.1.evil.example:" + port + ownPath, untrusted},
		"the host as the user of another":               {"https://" + host + "@evil.example" + ownPath, invalid},
		"the host as the password of another":           {"https://x:" + port + "@evil.example" + ownPath, invalid},
		"a user at the host":                            {"https://user@" + host + ownPath, invalid},
		"without TLS":                                   {"http://" + host + ownPath, invalid},
		"a server without TLS":                          {plain.URL + ownPath, invalid},
		"another scheme":                                {"wss://" + host + ownPath, invalid},
		"no scheme":                                     {"//" + host + ownPath, invalid},
		"a host of other letters":                       {"https://127.0.0.１:" + port + ownPath, "other signs than those of ASCII"},
		"the host behind a backslash":                   {`https://` + host + `\.evil.example` + ownPath, "invalid"},
		"the host before a line feed":                   {"https://" + host + "\n.evil.example" + ownPath, "invalid control character"},
		"another object":                                {plane.URL + "/dataplane/clusters/c1/namespaces/default/sandboxrunners/victim", elsewhere},
		"another kind":                                  {plane.URL + "/dataplane/clusters/c1/namespaces/default/sandboxes/web", elsewhere},
		"another namespace":                             {plane.URL + "/dataplane/clusters/c1/namespaces/kube-system/sandboxrunners/web", elsewhere},
		"another workspace":                             {plane.URL + "/dataplane/clusters/c2/namespaces/default/sandboxrunners/web", elsewhere},
		"no namespace":                                  {plane.URL + "/dataplane/clusters/c1/sandboxrunners/web", elsewhere},
		"an app behind the proxy of another":            {plane.URL + "/dataplane/clusters/c2/namespaces/x/sandboxes/victim/proxy" + ownPath, elsewhere},
		"an app behind the proxy of another, otherwise": {plane.URL + "/clusters/c2/apis/sandbar.dev/v1alpha1/namespaces/x/sandboxes/victim/proxy" + ownPath, elsewhere},
		"a component of it":                             {plane.URL + ownPath + "/components/api", elsewhere},
		"a verb of it":                                  {plane.URL + ownPath + "/proxy", elsewhere},
		"steps up":                                      {plane.URL + ownPath + "/../victim", elsewhere},
		"steps up and back":                             {plane.URL + "/dataplane/x/.." + ownPath[len("/dataplane"):], elsewhere},
		"steps up in other letters":                     {plane.URL + ownPath + "/%2e%2e/victim", elsewhere},
		"a slash in other letters":                      {plane.URL + "/dataplane/clusters/c1/namespaces/default/sandboxrunners%2fweb", elsewhere},
		"two slashes":                                   {plane.URL + "/" + ownPath, elsewhere},
		"two slashes inside":                            {plane.URL + "/dataplane//clusters/c1/namespaces/default/sandboxrunners/web", elsewhere},
		"a query":                                       {plane.URL + ownPath + "?x=", elsewhere},
		"an empty query":                                {plane.URL + ownPath + "?", elsewhere},
		"a fragment":                                    {plane.URL + ownPath + "#x", elsewhere},
		"a backslash":                                   {plane.URL + ownPath + `\..\victim`, elsewhere},
		"no path":                                       {plane.URL, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t, func(int) string { return c.address })
			i, err := l.instance(nil, client.DataPlane{URL: plane.URL, CABundle: certificateOf(plane)})
			if err == nil {
				t.Fatalf("it is believed: %s", i.URL("exec", "", nil))
			}
			if !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("got %v, want %q", err, c.refusal)
			}
			var address *client.AddressError
			if errors.As(err, &address) != (c.refusal == elsewhere) {
				t.Errorf("%T: %[1]v", err)
			}
		})
	}
}

func TestTheOwnAddressOfAnInstanceIsTaken(t *testing.T) {
	for name, address := range map[string]string{
		"as it is": ownPath, "below a base": "/hub/a" + ownPath, "below a base of its name": "/dataplane" + ownPath, "with a slash at its end": ownPath + "/",
	} {
		plane := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path != strings.TrimRight(address, "/")+"/restart" {
				t.Errorf("%s: called %s", name, r.URL)
			}
		}))
		defer plane.Close()
		i, err := newLiar(t, func(int) string { return plane.URL + address }).instance(nil, client.DataPlane{URL: plane.URL, CABundle: certificateOf(plane)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := i.Restart(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A person has two kcp servers, and trusts the data plane with the token of one.
func TestATrustedDataPlaneGetsTheTokenOfItsOwnServerAlone(t *testing.T) {
	calls := 0
	plane := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls++ }))
	defer plane.Close()
	l := newLiar(t, func(int) string { return plane.URL + ownPath })
	for name, c := range map[string]struct {
		servers []string
		trusted bool
	}{
		"of this one":                                 {[]string{"https://elsewhere.example:443", l.kcp.URL}, true},
		"of another one":                              {[]string{"https://elsewhere.example:443"}, false},
		"of another port of this one":                 {[]string{"https://127.0.0.1:1"}, false},
		"of this one, without TLS":                    {[]string{"http://" + l.kcp.Listener.Addr().String()}, false},
		"of every one, as earlier versions stored it": {nil, true},
	} {
		calls = 0
		i, err := l.instance(nil, client.DataPlane{URL: plane.URL, CABundle: certificateOf(plane), Servers: c.servers})
		if !c.trusted {
			if !errors.As(err, new(*client.UntrustedError)) || calls > 0 {
				t.Errorf("%s: %v, %d calls", name, err, calls)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := i.Restart(t.Context()); err != nil || calls != 1 {
			t.Errorf("%s: %v, %d calls", name, err, calls)
		}
	}
	for host, want := range map[string]string{
		"https://Kcp.example.com/clusters/root:me": "https://kcp.example.com:443", "https://[::1]:6443": "https://[::1]:6443", "http://kcp": "http://kcp:80", "kcp:6443": "kcp:6443",
	} {
		if got := client.ServerOf(&rest.Config{Host: host}); got != want {
			t.Errorf("the server of %s is %s", host, got)
		}
	}
}

// A status that changes behind the look is not looked at for the call, and the next look judges it again.
func TestAnAddressThatChangesBehindTheLookIsNotFollowed(t *testing.T) {
	calls := 0
	plane := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "2026-01-02T03:04:05.000000000Z line\n")
	}))
	defer plane.Close()
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was called with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	l := newLiar(t, func(look int) string {
		if look > 1 {
			return elsewhere.URL + ownPath
		}
		return plane.URL + ownPath
	})
	trusted := client.DataPlane{URL: plane.URL, CABundle: certificateOf(plane)}
	i, err := l.instance(nil, trusted)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for e, err := range i.Logs(ctx, client.LogOptions{Follow: true}) { // a log that ends has the status read, and the log once more
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == client.LogEnded {
			break
		}
	}
	if err := i.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	if l.looks < 2 || calls < 2 {
		t.Errorf("%d looks, %d calls", l.looks, calls)
	}
	if _, err := l.instance(nil, trusted); !errors.As(err, new(*client.UntrustedError)) {
		t.Errorf("the next look: %v", err)
	}
}

// Both providers are trusted, each by a CA of its own: neither may answer for the other.
func TestTheCertificateOfAnotherTrustedProviderIsRefused(t *testing.T) {
	called := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was called with %q", r.Host, r.Header.Get("Authorization"))
	})
	other := httptest.NewTLSServer(called)
	defer other.Close()
	i, err := newLiar(t, func(int) string { return other.URL + ownPath }).instance(nil,
		client.DataPlane{URL: "https://first.example.com", CABundle: certificateOf(other)}, client.DataPlane{URL: other.URL, CABundle: aCA(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Restart(t.Context()); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("got %v", err)
	}
}

// anotherCertificate is one for 127.0.0.1 that no CA has signed.
func anotherCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pemOf is a certificate and its key as a kubeconfig has them.
func pemOf(t *testing.T, c tls.Certificate) (certificate, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// A proxy that ends the TLS itself, or answers for the host, has no certificate of the data plane's CA.
func TestAProxyInBetweenGetsNoCredential(t *testing.T) {
	plane := httptest.NewTLSServer(http.NotFoundHandler())
	defer plane.Close()
	var mu sync.Mutex
	var seen []string
	another := anotherCertificate(t)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, fmt.Sprint(r.Method, r.Header))
		mu.Unlock()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		inside := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{another}, MinVersion: tls.VersionTLS12})
		if sent, err := io.ReadAll(inside); err == nil || len(sent) > 0 {
			t.Errorf("the proxy reads %q", sent)
		}
	}))
	defer proxy.Close()
	l := newLiar(t, func(int) string { return plane.URL + ownPath })
	through := func(cfg *rest.Config) {
		cfg.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Host == l.kcp.Listener.Addr().String() {
				return nil, nil //nolint:nilnil // what package net/http takes for no proxy
			}
			return url.Parse(proxy.URL)
		}
	}
	i, err := l.instance(through, client.DataPlane{URL: plane.URL, CABundle: certificateOf(plane)})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Restart(t.Context()); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("got %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 1 || !strings.HasPrefix(seen[0], http.MethodConnect) || strings.Contains(seen[0], token) {
		t.Errorf("the proxy saw %q", seen)
	}
}

// A client certificate and a password are for kcp alone.
func TestADataPlaneGetsTheTokenAndNoOtherCredential(t *testing.T) {
	var got http.Header
	plane := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		if len(r.TLS.PeerCertificates) > 0 {
			t.Error("the client showed its certificate")
		}
	}))
	plane.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	plane.StartTLS()
	defer plane.Close()
	certificate, key := pemOf(t, anotherCertificate(t))
	for name, c := range map[string]struct {
		change func(*rest.Config)
		want   string
	}{
		"a certificate beside a token": {func(cfg *rest.Config) { cfg.CertData, cfg.KeyData = certificate, key }, "Bearer " + token},
		"a certificate alone":          {func(cfg *rest.Config) { cfg.BearerToken, cfg.CertData, cfg.KeyData = "", certificate, key }, ""},
		"a name and a password":        {func(cfg *rest.Config) { cfg.BearerToken, cfg.Username, cfg.Password = "", "alice", "secret" }, ""},
	} {
		i, err := newLiar(t, func(int) string { return plane.URL + ownPath }).instance(c.change, client.DataPlane{URL: plane.URL, CABundle: certificateOf(plane)})
		if err != nil {
			t.Fatal(err)
		}
		if err := i.Restart(t.Context()); err != nil || got.Get("Authorization") != c.want {
			t.Errorf("%s: it gets %q, %v", name, got.Get("Authorization"), err)
		}
	}
}

// A person who acts as somebody with fewer rights would use their own.
func TestAnImpersonatingCallerIsRefused(t *testing.T) {
	_, err := client.New(&rest.Config{Host: "https://kcp", BearerToken: token, Impersonate: rest.ImpersonationConfig{UserName: "bob"}})
	if err == nil || !strings.Contains(err.Error(), `acts as "bob"`) {
		t.Errorf("got %v", err)
	}
}

// A redirect is a failure, and what it leads to gets nothing.
func TestARedirectOfADataPlaneIsAFailure(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was called with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		plane := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/login", code)
		}))
		i, err := newLiar(t, func(int) string { return plane.URL + ownPath }).instance(nil, client.DataPlane{URL: plane.URL, CABundle: append(certificateOf(plane), certificateOf(elsewhere)...)})
		if err != nil {
			t.Fatal(err)
		}
		_, preview := i.Preview(t.Context(), client.PreviewOptions{})
		_, exec := i.Exec(t.Context(), client.ExecOptions{Command: []string{"true"}})
		_, list := i.Workspace().List(t.Context(), nil, "")
		_, read := i.Workspace().Read(t.Context(), "a", 0, "")
		var logs error
		for _, logs = range i.Logs(t.Context(), client.LogOptions{}) {
		}
		for call, err := range map[string]error{"restart": i.Restart(t.Context()), "preview": preview, "exec": exec, "list": list, "read": read, "logs": logs} {
			if err == nil || call != "exec" && !strings.Contains(err.Error(), "does not follow a redirect") {
				t.Errorf("%d, %s: %v", code, call, err)
			}
		}
		plane.Close()
	}
}
