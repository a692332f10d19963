// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// soon is how long before its end a server's certificate is a warning.
const soon = 7 * 24 * time.Hour

func (e *examination) kubeconfig(context.Context) Check {
	cfg, namespace, err := e.Config()
	if err != nil {
		return failed(NoKubeconfig, "", "%v", err)
	}
	e.cfg, e.namespace = client.WithoutRedirects(cfg), namespace
	e.cfg.QPS = -1 // there are few requests, and a limiter would make them wait
	if e.objects, err = dynamic.NewForConfig(e.cfg); err != nil {
		return failed(NoKubeconfig, "", "%v", err)
	}
	if !strings.Contains(cfg.Host, "/clusters/") {
		return failed(NotAWorkspace, cfg.Host, "it leads to %s, which is not a workspace of kcp", cfg.Host)
	}
	return passed("it leads to %s", cfg.Host)
}

// reach calls the server without the credential, and returns the connection's state, nil without TLS.
func (e *examination) reach(ctx context.Context) (*tls.ConnectionState, error) {
	anonymous := rest.AnonymousClientConfig(e.cfg)
	anonymous = client.WithoutRedirects(anonymous)
	caller, err := rest.HTTPClientFor(anonymous)
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(e.cfg.Host)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := caller.Do(req)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	return res.TLS, nil
}

func (e *examination) server(ctx context.Context) Check {
	_, err := e.reach(ctx)
	var certificate *tls.CertificateVerificationError
	var redirect *client.RedirectError
	switch host := hostOf(e.cfg.Host); {
	case errors.As(err, &redirect):
		return failed(Redirects, host, "%v", redirect)
	case err != nil && !errors.As(err, &certificate):
		return failed(Unreachable, host, "%v", err)
	default:
		return passed("%s answers", host)
	}
}

func (e *examination) tls(ctx context.Context) Check {
	host := hostOf(e.cfg.Host)
	if !strings.HasPrefix(e.cfg.Host, "https://") {
		return failed(NotVerified, host, "%s is reached without TLS: the credential would travel in the clear", host)
	}
	connection, err := e.reach(ctx)
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return failed(NotVerified, host, "%v", certificate.Err)
	case err != nil:
		return failed(Unreachable, host, "%v", err)
	case e.cfg.Insecure:
		return warning(VerificationOff, host, "the kubeconfig turns verification off (insecure-skip-tls-verify): the credential goes to anybody in between")
	case connection == nil || len(connection.PeerCertificates) == 0:
		return failed(NotVerified, host, "%s shows no certificate", host)
	}
	if end := connection.PeerCertificates[0].NotAfter; time.Until(end) < soon {
		return warning(CertificateEnds, host, "the certificate of %s ends at %s", host, end.UTC().Format(time.RFC3339))
	}
	return passed("the certificate of %s is verified", host)
}

func (e *examination) credential(ctx context.Context) Check {
	var err error
	e.me, err = client.WhoAmI(ctx, e.cfg)
	switch {
	case apierrors.IsForbidden(err):
		// kcp knows the caller, and says who it is; the workspace is the next step.
		e.denied = err
		return passed("kcp knows it")
	case apierrors.IsUnauthorized(err):
		return failed(CredentialUnknown, e.cfg.Host, "kcp does not know it, or not any more")
	case err != nil:
		return failed(Unknown, "", "%v", err)
	case e.me.Username == client.Anonymous:
		return failed(NoCredential, e.cfg.Host, "the kubeconfig has none, or kcp takes it for none")
	case !forDataPlanes(e.cfg):
		return warning(OnlyCertificate, e.cfg.Host, "it is a client certificate of %s, and a data plane takes none", e.me.Username)
	default:
		return passed("you are %s", e.me.Username)
	}
}

// forDataPlanes reports whether a configuration has a credential that a data plane can pass on to kcp.
func forDataPlanes(cfg *rest.Config) bool {
	return cfg.BearerToken != "" || cfg.BearerTokenFile != "" || cfg.ExecProvider != nil || cfg.AuthProvider != nil
}

func (e *examination) workspace(ctx context.Context) Check {
	if e.denied != nil {
		return failed(NoAccess, e.cfg.Host, "%v", e.denied)
	}
	_, err := e.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, e.namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return failed(NoNamespace, e.namespace, "it has no namespace %s", e.namespace)
	case apierrors.IsForbidden(err): // the right to read namespaces is not everybody's
		return passed("you may enter it")
	case err != nil:
		return failed(Unknown, "", "%v", err)
	default:
		return passed("you may enter it, and it has the namespace %s", e.namespace)
	}
}

// hostOf is the scheme and the host of an address.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return fmt.Sprintf("%s://%s", u.Scheme, u.Host)
}
