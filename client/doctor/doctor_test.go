// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/doctor"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/client/workspacetest"
)

// patient is a workspace with a data plane, and a way to it on which everything is well.
type patient struct {
	*workspacetest.Workspace
	server    *httptest.Server
	plane     *httptest.Server
	planeDown bool
	cfg       *rest.Config
	namespace string
	store     session.TrustStore
}

func bundleOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func given(group, resource, state string) map[string]any {
	return map[string]any{"group": group, "resource": resource, "verbs": []any{"create"}, "state": state, "selector": map[string]any{"matchAll": true}}
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{Workspace: &workspacetest.Workspace{Token: "alices", Kinds: map[string]string{"sandboxrunners": "SandboxRunner"}}, namespace: "default"}
	p.plane = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the data plane got the credential")
		}
		if p.planeDown {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write(bundleOf(p.plane))
	}))
	t.Cleanup(p.plane.Close)
	p.server = httptest.NewTLSServer(p.Workspace)
	t.Cleanup(p.server.Close)
	p.bind(given("authorization.k8s.io", "subjectaccessreviews", "Accepted"), given("", "events", "Accepted"))
	p.cfg = &rest.Config{Host: p.server.URL + "/clusters/root:me", BearerToken: p.Token, TLSClientConfig: rest.TLSClientConfig{CAData: bundleOf(p.server)}}
	p.store = session.TrustStore{Path: filepath.Join(t.TempDir(), "trust.json")}
	if err := p.store.Add(client.DataPlane{URL: p.plane.URL, CABundle: bundleOf(p.plane)}); err != nil {
		t.Fatal(err)
	}
	return p
}

// bind puts the provider's binding into the workspace.
func (p *patient) bind(claims ...any) {
	sum := sha256.Sum256(bundleOf(p.plane))
	p.Annotations = map[string]any{"extra.apis.kcp.io/dataplane-url": p.plane.URL, "extra.apis.kcp.io/dataplane-ca-sha256": hex.EncodeToString(sum[:])}
	p.Has("sandbar.dev", "root:sandbar", "sandbar.dev", claims...)
}

func (p *patient) examine(ctx context.Context) []doctor.Check {
	return doctor.Examine(ctx, doctor.Options{
		Config:   func() (*rest.Config, string, error) { return p.cfg, p.namespace, nil },
		Trust:    p.store,
		Resource: client.SandboxRunners,
	})
}

// text is the checks in one line: those that are not ok, with their problems.
func text(checks []doctor.Check) string {
	var out []string
	for _, c := range checks {
		if c.State != doctor.OK {
			out = append(out, strings.TrimSpace(string(c.State)+" "+c.Name+" "+string(c.Problem)))
		}
	}
	return strings.Join(out, "; ")
}

func TestADoctorFindsNothingWhereAllIsWell(t *testing.T) {
	p := newPatient(t)
	checks := p.examine(t.Context())
	var names []string
	for _, c := range checks {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff(doctor.Names, names); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if got := text(checks); got != "" {
		t.Errorf("got %s: %+v", got, checks)
	}
	if changes := p.Changes(); len(changes) > 0 {
		t.Errorf("something was changed: %v", changes)
	}
}

// short makes the workspace's server show a certificate that ends tomorrow.
func (p *patient) short(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(p.Workspace)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	p.cfg.Host, p.cfg.CAData = server.URL+"/clusters/root:me", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestADoctorNamesTheFirstStepThatFails(t *testing.T) {
	const (
		after   = "; skipped binding; skipped data plane; skipped rights"
		reviews = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"
	)
	answers := func(body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
				return false
			}
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *patient)
		want   string
	}{
		"a server that is not there": {
			func(_ *testing.T, p *patient) { p.server.Close() },
			"failed server Unreachable; skipped TLS; skipped credential; skipped workspace" + after,
		},
		"a server that redirects": {
			func(_ *testing.T, p *patient) {
				p.Before = func(w http.ResponseWriter, r *http.Request) bool {
					http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
					return true
				}
			},
			"failed server Redirects; skipped TLS; skipped credential; skipped workspace" + after,
		},
		"not a workspace": {
			func(_ *testing.T, p *patient) { p.cfg.Host = p.server.URL },
			"failed kubeconfig NotAWorkspace; skipped server; skipped TLS; skipped credential; skipped workspace" + after,
		},
		"a server of another CA": {
			func(_ *testing.T, p *patient) { p.cfg.CAData = nil },
			"failed TLS NotVerified; skipped credential; skipped workspace" + after,
		},
		"no verification": {
			func(_ *testing.T, p *patient) { p.cfg.CAData, p.cfg.Insecure = nil, true }, "warning TLS VerificationOff",
		},
		"a certificate that ends soon": {func(t *testing.T, p *patient) { p.short(t) }, "warning TLS CertificateEnds"},
		"a token that kcp does not know": {
			func(_ *testing.T, p *patient) { p.cfg.BearerToken = "old" }, "failed credential CredentialUnknown; skipped workspace" + after,
		},
		"a credential that kcp takes for none": {
			func(_ *testing.T, p *patient) {
				p.Before = answers(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"system:anonymous"}}}`)
			},
			"failed credential NoCredential; skipped workspace" + after,
		},
		"a client certificate": {
			func(_ *testing.T, p *patient) { p.cfg.BearerToken, p.Token = "", "" }, "warning credential OnlyCertificate",
		},
		"no access to the workspace": {
			func(_ *testing.T, p *patient) { p.Denied = map[string]bool{reviews: true} }, "failed workspace NoAccess" + after,
		},
		"a namespace that is not there": {
			func(_ *testing.T, p *patient) { p.namespace = "none" }, "failed workspace NoNamespace",
		},
		"no right to read the namespace": {
			func(_ *testing.T, p *patient) { p.Denied = map[string]bool{"GET /api/v1/namespaces/default": true} }, "",
		},
		"nothing is bound": {
			func(_ *testing.T, p *patient) { p.Kinds = nil }, "failed binding NotBound; skipped data plane; skipped rights",
		},
		"no right to read bindings": {
			func(_ *testing.T, p *patient) {
				p.Denied = map[string]bool{"GET /apis/apis.kcp.io/v1alpha2/apibindings": true}
			},
			"warning binding BindingsHidden; skipped data plane",
		},
		"a binding that is not served yet": {
			func(_ *testing.T, p *patient) {
				p.Before = func(w http.ResponseWriter, r *http.Request) bool {
					if strings.HasSuffix(r.URL.Path, "/sandboxrunners") {
						http.NotFound(w, r)
						return true
					}
					return false
				}
			},
			"failed binding NotServed; skipped data plane; skipped rights",
		},
		"a binding without a data plane": {
			func(_ *testing.T, p *patient) {
				p.Annotations = map[string]any{"a": "b"}
				p.Has("sandbar.dev", "root:sandbar", "sandbar.dev")
			},
			"warning binding NoDataPlane; skipped data plane",
		},
		"an older binding": {
			func(_ *testing.T, p *patient) {
				p.bind(given("authorization.k8s.io", "subjectaccessreviews", "Accepted"))
			}, "warning binding ClaimMissing",
		},
		"a claim that was rejected": {
			func(_ *testing.T, p *patient) {
				p.bind(given("authorization.k8s.io", "subjectaccessreviews", "Accepted"), given("", "events", "Rejected"))
			},
			"warning binding ClaimMissing",
		},
		"a data plane that is not trusted": {
			func(t *testing.T, p *patient) { p.store.Path = filepath.Join(t.TempDir(), "trust.json") }, "failed data plane NotTrusted",
		},
		"a data plane with another CA": {
			func(t *testing.T, p *patient) {
				if err := p.store.Add(client.DataPlane{URL: p.plane.URL, CABundle: append(bundleOf(p.plane), '\n')}); err != nil {
					t.Fatal(err)
				}
			},
			"failed data plane OtherCA",
		},
		"a data plane that is not there": {func(_ *testing.T, p *patient) { p.plane.Close() }, "failed data plane DataPlaneSilent"},
		"a data plane that fails":        {func(_ *testing.T, p *patient) { p.planeDown = true }, "failed data plane DataPlaneSilent"},
		"no right at all":                {func(_ *testing.T, p *patient) { p.NotAllowed = []string{"get sandboxrunners"} }, "failed rights NoRight"},
		"a viewer": {
			func(_ *testing.T, p *patient) {
				p.NotAllowed = []string{"create sandboxrunners", "create sandboxrunners/exec"}
			}, "warning rights SomeRights",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t)
			c.change(t, p)
			checks := p.examine(t.Context())
			if got := text(checks); got != c.want {
				t.Errorf("got  %s\nwant %s\n%+v", got, c.want, checks)
			}
		})
	}
}

func TestADoctorWithoutAKubeconfigSaysWhy(t *testing.T) {
	checks := doctor.Examine(t.Context(), doctor.Options{Config: func() (*rest.Config, string, error) { return nil, "", errors.New("there is no file x") }})
	if checks[0].Problem != doctor.NoKubeconfig || checks[0].Detail != "there is no file x" || len(checks) != len(doctor.Names) {
		t.Errorf("got %+v", checks)
	}
	for _, c := range checks[1:] {
		if c.State != doctor.Skipped {
			t.Errorf("%s is %s", c.Name, c.State)
		}
	}
}

func TestADoctorEndsWithTheContext(t *testing.T) {
	p := newPatient(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			cancel()
		}
		return false
	}
	checks := p.examine(ctx)
	if slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.Name == doctor.Credential }) {
		t.Errorf("a check that was cut off is among %+v", checks)
	}
}

func TestAServerThatIsSilentEndsACheckAfterItsTime(t *testing.T) {
	p := newPatient(t)
	// It says nothing when its caller has gone, either: what comes before the connection is closed would be an answer.
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	p.server.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over })
	checks := doctor.Examine(t.Context(), doctor.Options{
		Config: func() (*rest.Config, string, error) { return p.cfg, p.namespace, nil }, Trust: p.store, Resource: client.SandboxRunners, Timeout: 50 * time.Millisecond,
	})
	if got := checks[1]; got.Name != doctor.Server || got.Problem != doctor.Unreachable || got.Detail != "there is no answer within 50ms" || got.Subject != p.server.URL {
		t.Errorf("got %+v", got)
	}
}
