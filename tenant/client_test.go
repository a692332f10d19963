// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const token = "the-caller's-token"

// newClient makes a client for a kcp that answers with handler, configured the way a provider
// is: with a workspace in its address and a credential of its own.
func newClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{
		Host: server.URL + "/base/clusters/root:sandbar", BearerToken: "the-provider's-token", Username: "u", Password: "p",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var ref = Ref{Workspace: "root:acme", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"}

func TestARequestIsTheCallers(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer "+token {
			t.Errorf("kcp got credentials %q", got)
		}
		if want := "/base/clusters/root:acme/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo"; r.URL.Path != want {
			t.Errorf("kcp was asked for %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "u1"}})
	})
	obj, answer := c.GetMetadata(t.Context(), Bearer(token), ref)
	if answer.Outcome != Allowed || obj.UID != "u1" {
		t.Errorf("got %+v, %+v", obj, answer)
	}
}

func TestOutcomes(t *testing.T) {
	huge := `{"metadata":{"name":"demo","uid":"u"},"status":{"allowed":true}}` + strings.Repeat(" ", maxResponseBytes)
	for name, c := range map[string]struct {
		code        int
		body        string
		get, review Outcome
	}{
		"401":                          {401, "", Unauthorized, Unauthorized},
		"403":                          {403, "", Denied, NoAccess},
		"404":                          {404, "", NotFound, NoAccess},
		"410":                          {410, "", Unavailable, Unavailable},
		"429":                          {429, "", Unavailable, Unavailable},
		"500":                          {500, "", Unavailable, Unavailable},
		"a redirect":                   {302, "", Unavailable, Unavailable},
		"no JSON":                      {200, "<html>", Unavailable, Unavailable},
		"another object":               {200, `{"metadata":{"name":"other","uid":"u"}}`, Unavailable, Denied},
		"an object without UID":        {200, `{"metadata":{"name":"demo"}}`, Unavailable, Denied},
		"more than is read":            {200, huge, Unavailable, Unavailable},
		"a review that allows":         {201, `{"metadata":{"name":"demo","uid":"u"},"status":{"allowed":true}}`, Allowed, Allowed},
		"a review that denies":         {201, `{"metadata":{"name":"demo","uid":"u"},"status":{"allowed":false}}`, Allowed, Denied},
		"a review without a statement": {201, `{"metadata":{"name":"demo","uid":"u"}}`, Allowed, Denied},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Errorf("a redirect was followed, with %q", r.Header["Authorization"])
				}
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			_, got := client.GetMetadata(t.Context(), Bearer(token), ref)
			review := client.Review(t.Context(), Bearer(token), "root:acme", authorizationv1.SelfSubjectAccessReviewSpec{})
			if got.Outcome != c.get || review.Outcome != c.review {
				t.Errorf("get is %v, review is %v; want %v and %v", got.Outcome, review.Outcome, c.get, c.review)
			}
			if (got.Outcome == Unavailable) != (got.Err != nil) {
				t.Errorf("outcome %v has error %v", got.Outcome, got.Err)
			}
			if c.code == 429 && got.RetryAfter != 3*time.Second {
				t.Errorf("asks to wait %v", got.RetryAfter)
			}
			if strings.Contains(fmt.Sprint(got, review), token) {
				t.Errorf("the token is in %v, %v", got, review)
			}
		})
	}
}

// An answer that does not end is read no further than an answer may be long, whatever its code.
func TestAnAnswerThatDoesNotEndIsNotReadOn(t *testing.T) {
	const most = 64 << 20
	for _, code := range []int{200, 403, 500} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			written := make(chan int, 1)
			client := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				n := 0
				for chunk := make([]byte, 64<<10); n < most; n += len(chunk) {
					if _, err := w.Write(chunk); err != nil {
						break
					}
				}
				written <- n
			})
			if _, got := client.GetMetadata(t.Context(), Bearer(token), ref); got.Outcome == Allowed {
				t.Errorf("got %v", got.Outcome)
			}
			if <-written >= most {
				t.Error("all of it was read")
			}
		})
	}
}

func TestNobodyIsNotAskedFor(t *testing.T) {
	c := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("kcp was asked") })
	for _, caller := range []Caller{{}, Bearer("")} {
		if got := c.Get(t.Context(), caller, ref, &struct{}{}); got.Outcome != Unauthorized {
			t.Errorf("got %v", got.Outcome)
		}
	}
}

func TestNoValueAddsASegment(t *testing.T) {
	var got string
	c := newClient(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	hostile := ref
	hostile.Name, hostile.Workspace = "../../secrets/x?y=z#", "root/../system:admin"
	c.Get(t.Context(), Bearer(token), hostile, &struct{}{})
	want := "/base/clusters/root%2F..%2Fsystem:admin/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/..%2F..%2Fsecrets%2Fx%3Fy=z%23"
	if got != want {
		t.Errorf("asked for %s", got)
	}
}

func TestAKcpThatIsNotThereIsUnavailable(t *testing.T) {
	c := newClient(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := c.Get(ctx, Bearer(token), ref, &struct{}{})
	if got.Outcome != Unavailable || got.Err == nil || strings.Contains(got.Err.Error(), token) {
		t.Errorf("got %+v", got)
	}
}

func TestTheProvidersCertificateIsNotShown(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	shown := -1
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown = len(r.TLS.PeerCertificates) }))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	c, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		Insecure: true,
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Get(t.Context(), Bearer(token), ref, &struct{}{})
	if shown != 0 {
		t.Errorf("kcp saw %d certificates of the provider", shown)
	}
}

// A proxy that the environment names would get callers' tokens.
func TestNoProxyOfTheEnvironmentIsUsed(t *testing.T) {
	if c := newClient(t, nil); c.transport.Proxy != nil {
		t.Error("the transport asks for a proxy although the configuration names none")
	}
}

func TestACallerPrintsAsNothing(t *testing.T) {
	held := struct{ caller Caller }{Bearer(token)}
	encoded, err := json.Marshal(Bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{fmt.Sprintf("%v %+v %#v %s %q", held, held, held, held.caller, held.caller), string(encoded)} {
		if strings.Contains(got, token) {
			t.Errorf("printed %s", got)
		}
	}
	if Bearer("a").CredentialKey() == Bearer("b").CredentialKey() || (Caller{}).CredentialKey() != [sha256.Size]byte{} {
		t.Error("callers share a key")
	}
}
