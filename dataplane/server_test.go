// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

func TestDrainLetsRequestsFinishAndEndsStreams(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/logs" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "finished")
	}), func(s *setup) { s.opts.DrainDelay = 200 * time.Millisecond })
	req, _ := http.NewRequest(http.MethodGet, w.url+demo+"log", nil)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	stream, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	answer := make(chan string)
	go func() {
		_, body := w.do("POST", demo+"sync", adminToken, nil)
		answer <- body
	}()
	<-begun
	stopped := make(chan error)
	go func() { stopped <- w.stop() }()
	eventually(t, "the server is unready", func() bool {
		res, err := w.client.Get(w.metrics + pathReady)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(body), "draining")
	})
	if _, err := io.ReadAll(stream.Body); err == nil {
		t.Error("the stream ended as if it were whole: its client would not open it again")
	}
	close(finish)
	if got := <-answer; got != "finished" {
		t.Errorf("the request in flight got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Errorf("draining: %v", err)
	}
	if !strings.Contains(w.logs.String(), `"reason":"draining"`) {
		t.Error("the access line does not tell why the stream ended")
	}
}

func TestDrainCutsWhatDoesNotFinish(t *testing.T) {
	begun := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}), func(s *setup) { s.opts.DrainTimeout = 50 * time.Millisecond })
	conn := w.dial()
	fmt.Fprintf(conn, "POST %ssync HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAuthorization: Bearer %s\r\n\r\n", demo, adminToken)
	<-begun
	if err := w.stop(); err != nil {
		t.Errorf("an orderly end is no error: %v", err)
	}
	if answer, _ := io.ReadAll(conn); strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("the caller got %q", answer)
	}
}

func TestDrainEndsUpgradedConnections(t *testing.T) {
	w := newWorld(t, switcher("", func(_ net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }))
	in := switched(t, w.dial(), demo+"proxy", "")
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection lives on")
	}
}

// Neither net/http nor a handler waits for a connection that was upgraded.
func TestRunReturnsWhenRelaysHaveEndedAndTheirLinesAreWritten(t *testing.T) {
	const streams = 30
	w, out := audited(t, switcher("", func(_ net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }))
	for range streams {
		switched(t, w.dial(), demo+"proxy", "")
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if n := w.server.handler.underWay.UnderWay(); n != 0 {
		t.Errorf("%d exchanges have not ended", n)
	}
	ended := 0
	for _, line := range out.lines(t) {
		if line.Stage == record.StageEnd && line.Code == http.StatusSwitchingProtocols && line.Reason == refusal.CauseDraining {
			ended++
		}
	}
	if ended != streams {
		t.Errorf("%d of %d streams have the line of their end", ended, streams)
	}
	if held := w.server.handler.limits.UnderWay(); held != 0 {
		t.Errorf("places are held still: %v", held)
	}
}

// A right that ends, ends streams: checked here by asking for the check, not by waiting for it.
func TestAStreamIsCutWhenItsRightEnds(t *testing.T) {
	for name, c := range map[string]struct {
		withdraw func(*world)
		cause    string
	}{
		"the right":    {func(w *world) { w.kcp.grant(adminToken, "get sandboxrunners") }, refusal.CauseCut},
		"the token":    {func(w *world) { w.kcp.set(func() { delete(w.kcp.rights, adminToken) }) }, refusal.CauseCut},
		"the instance": {func(w *world) { w.kcp.set(func() { clear(w.kcp.instances) }) }, refusal.CauseInstanceEnded},
		"recreated": {func(w *world) {
			w.kcp.addInstance("cluster1", "default", "demo", "uid-new")
			w.newPlacement(placement.ID{Origin: "cluster1", UID: "uid-new"}, "demo", "127.0.0.1:9")
		}, refusal.CauseInstanceEnded},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, recorder())
			h := w.server.handler
			r := locate.Route{Workspace: "cluster1", Namespace: "default", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Name: "demo", Verb: "log"}
			// The first look must renew lastGood, or a kcp that stumbles would cut what is older than the tolerance.
			stream := &supervisor{h: h, ctx: t.Context(), id: demoID, owner: demoOwner, lastGood: time.Now().Add(-24 * time.Hour), x: &exchange{
				route: r, kind: h.kinds.Find(r),
				question: access.Question{Caller: tenant.Bearer(adminToken), Ref: r.Ref(), Subresource: "log", Verb: "get", Declared: true},
			}}
			look := func() *refusal.Error { return stream.verdict(stream.stillAllowed(time.Now())) }
			if cut := look(); cut != nil {
				t.Fatalf("cut while the right stands: %v", cut)
			}
			w.kcp.set(func() { w.kcp.down = true })
			if cut := look(); cut != nil {
				t.Fatalf("cut although kcp only did not answer: %v", cut)
			}
			stream.lastGood = time.Now().Add(-h.settings.limits().KcpTolerance)
			if cut := look(); cut == nil || cut.Cause != refusal.CauseKcpSilent {
				t.Errorf("kcp has been silent for too long: %v", cut)
			}
			w.kcp.set(func() { w.kcp.down = false })
			c.withdraw(w)
			if cut := look(); cut == nil || cut.Cause != c.cause {
				t.Errorf("got %v, want %s", cut, c.cause)
			}
		})
	}
}

func TestTLSServesHTTP2AndReloadsItsCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(t, cert, key, 1)
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Insecure, s.opts.CertFile, s.opts.KeyFile = false, cert, key })
	get := func(protocols ...string) (*http.Response, error) {
		transport := &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}}
		defer transport.CloseIdleConnections()
		req, _ := http.NewRequest(http.MethodPost, strings.Replace(w.url, "http:", "https:", 1)+demo+"sync", strings.NewReader("over TLS"))
		req.Header.Set("Authorization", "Bearer "+adminToken)
		return transport.RoundTrip(req)
	}
	res, err := get("h2", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK || !strings.Contains(string(body), "over TLS") {
		t.Errorf("got HTTP/%d %d %s", res.ProtoMajor, res.StatusCode, body)
	}
	writeCertificate(t, cert, key, 2)
	eventually(t, "the new certificate is served", func() bool {
		res, err := get("http/1.1")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.TLS.PeerCertificates[0].SerialNumber.Int64() == 2
	})
}

func TestTLSBelow12IsRefused(t *testing.T) {
	w := newWorld(t, recorder(), overTLS(t))
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(w.url, "http://"), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}, certFile: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProbes(t *testing.T) {
	w := newWorld(t, recorder())
	for _, base := range []string{w.url, w.metrics} {
		for _, path := range []string{pathLive, pathReady} {
			res, err := w.client.Get(base + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusOK || string(body) != "ok\n" {
				t.Errorf("%s%s: %d %s", base, path, res.StatusCode, body)
			}
		}
	}
	res, _ := w.do("GET", "/metrics", adminToken, nil)
	if res.StatusCode == http.StatusOK {
		t.Error("metrics are served to callers")
	}
}

func TestNothingIs404BeforeTheCachesAreFilled(t *testing.T) {
	w := newWorld(t, recorder())
	empty, err := locate.NewRuntimeCache(w.runtime)
	if err != nil {
		t.Fatal(err)
	}
	h := w.server.handler
	h.filled.Store(false)
	h.placer.Cache = empty
	res, body := w.do("GET", demo+"log", adminToken, nil)
	wantStatus(t, res, body, http.StatusServiceUnavailable)
	h.placer.Cache = w.server.cache
	if res, body := w.do("GET", demo+"log", adminToken, nil); res.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

func TestTheAccessLine(t *testing.T) {
	w := newWorld(t, recorder())
	w.do("POST", demo+"sync/x?token=query-secret", adminToken, strings.NewReader("12345"))
	eventually(t, "there is an access line", func() bool { return strings.Contains(w.logs.String(), `"msg":"request"`) })
	line := w.logs.String()[strings.Index(w.logs.String(), `"msg":"request"`):]
	want := `"msg":"request","method":"POST","workspace":"root:acme:dev","resource":"sandboxrunners","namespace":"default","name":"demo","verb":"sync","code":200,"bytesIn":5,"bytesOut":`
	if !strings.HasPrefix(line, want) || strings.Contains(line, "query-secret") {
		t.Errorf("got %s", line)
	}
}

func TestOptions(t *testing.T) {
	var o Options
	o.SetDefaults()
	o.Insecure = true
	if err := o.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	bad := Options{ListenAddress: "x", MetricsAddress: "y", CertFile: "z", PathPrefix: "no-slash/", Transport: "pigeon", AuthorizationMode: "never", AuthorizationCacheSize: -1, DrainDelay: -1, HubCookies: []string{"a=b"}}
	bad.SetDefaults()
	bad.Limits.HeaderBytes, bad.Limits.WorkspaceRate = 1, -1
	err := bad.Validate()
	for _, want := range []string{
		"listen-address", "dataplane-metrics-address", "tls-cert-file", "path-prefix", "transport", "authorization-mode",
		"authorization-cache-size", "drain-delay", "hub-cookies", "limit headerBytes", "limit workspaceRate",
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}
