// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// soon is how long before its end a certificate is a warning.
const soon = 14 * 24 * time.Hour

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 10

// checkDataPlane calls the data plane as its tenants do: at its public address, with the CA bundle that they are given.
func (e *examination) checkDataPlane(ctx context.Context) []Finding {
	address := e.provider.Spec.DataPlane.URL
	trust, err := e.dataPlaneTrust()
	if err != nil {
		return one(failure("correct spec.dataPlane.caBundle of the InfrastructureProvider, or run init with --dataplane-ca-file", "%v", err))
	}
	u, err := url.Parse(address)
	if err != nil {
		return one(failure("", "%v", err))
	}
	// /readyz is at the root: what stands in front may have a path.
	code, body, connection, err := get(ctx, u.Scheme+"://"+u.Host+"/readyz", trust)
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return one(failure("give serve a certificate for "+u.Hostname()+", and init the bundle that verifies it (--dataplane-ca-file)",
			"clients do not trust %s: %v", u.Host, certificate.Err))
	case err != nil:
		return one(failure("see whether the name resolves, and whether serve and what stands in front of it run", "%s does not answer from here: %v", u.Host, err))
	case code == http.StatusNotFound:
		return append(ends(u.Host, connection), warning("pass it on, so that load balancers and you see whether a replica serves",
			"%s answers, and what stands in front does not pass /readyz on to the data plane", u.Host))
	case code != http.StatusOK:
		return one(failure("look at the log of serve", "%s is not ready (HTTP %d): %s", u.Host, code, termsafe.Line(body)))
	}
	if late := ends(u.Host, connection); len(late) > 0 {
		return late
	}
	return one(passed("%s is ready, and its certificate is verified by what clients are given", u.Host))
}

// dataPlaneTrust are the roots with which clients verify the data plane; nil for those of the system.
func (e *examination) dataPlaneTrust() (*x509.CertPool, error) {
	bundle := e.provider.Spec.DataPlane.CABundle
	if len(bundle) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, errors.New("the CA bundle of the data plane has no certificate")
	}
	return pool, nil
}

// get asks a server without any credential, and does not follow where it is sent.
func get(ctx context.Context, address string, trust *x509.CertPool) (code int, body string, connection *tls.ConnectionState, err error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12},
	}
	caller := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", nil, err
	}
	res, err := caller.Do(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	read, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) //nolint:forbidigo // maxAnswer
	return res.StatusCode, strings.TrimSpace(string(read)), res.TLS, err
}

// ends returns a finding if a server's certificate ends soon.
func ends(host string, connection *tls.ConnectionState) []Finding {
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return nil
	}
	if end := connection.PeerCertificates[0].NotAfter; time.Until(end) < soon {
		return one(warning("renew it", "the certificate of %s ends at %s", host, end.UTC().Format(time.RFC3339)))
	}
	return nil
}

// checkPreviews resolves a name below the preview domain, and sees whether the certificate that is shown there covers it.
func (e *examination) checkPreviews(ctx context.Context) []Finding {
	domain := e.provider.Spec.DataPlane.PreviewDomain
	if domain == "" {
		return one(skipped("there is no preview domain: tenants have no preview links (init --preview-domain)"))
	}
	host, port, err := net.SplitHostPort(domain)
	if err != nil {
		host, port = domain, "443"
	}
	name := strings.ToLower(rand.Text()[:12]) + "." + host
	at := addressOf(name)
	if _, err := net.DefaultResolver.LookupHost(ctx, at); err != nil {
		return one(failure("make a DNS record *."+host+" that leads to the data plane", "names below the preview domain do not resolve from here: %v", err))
	}
	trust, err := e.dataPlaneTrust()
	if err != nil {
		return one(failure("", "%v", err))
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: trust, ServerName: name, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(at, port))
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &certificate):
		return one(failure("give serve, or what stands in front of it, a certificate for *."+host, "browsers do not trust previews: %v", certificate.Err))
	case err != nil:
		return one(failure("see whether *."+host+" leads to the data plane", "previews do not answer from here: %v", err))
	}
	defer connection.Close()
	secured, ok := connection.(*tls.Conn)
	if !ok {
		return one(passed("previews answer below %s", domain))
	}
	state := secured.ConnectionState()
	if late := ends(name, &state); len(late) > 0 {
		return late
	}
	return one(passed("names below %s resolve, and the certificate covers them", domain))
}

// addressOf is the name to look up in place of a host's: browsers take every name below localhost for this machine
// without asking (RFC 6761, section 6.3), and resolvers need not.
func addressOf(host string) string {
	if strings.HasSuffix(host, ".localhost") {
		return "localhost"
	}
	return host
}

var gatewayKind = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}

// checkGateway looks at the Gateway that carries previews by host name.
func (e *examination) checkGateway(ctx context.Context) []Finding {
	preview := e.provider.Spec.Preview
	if preview == nil || preview.GatewayRef == nil {
		return one(skipped("there is no Gateway for previews (init --gateway and --base-domain)"))
	}
	ref := preview.GatewayRef
	if found := e.gatewayProblems(ctx, failure, "make it, or run init with another --gateway", ref.Namespace, ref.Name); len(found) > 0 {
		return found
	}
	return one(passed("the Gateway %s/%s is programmed, and takes routes of placements", ref.Namespace, ref.Name))
}

// gatewayProblems says why a Gateway leads no requests to placements. absent is what to do if it is not there.
func (e *examination) gatewayProblems(ctx context.Context, told func(fix, format string, args ...any) Finding, absent, namespace, name string) (found []Finding) {
	gateway := &unstructured.Unstructured{}
	gateway.SetGroupVersionKind(gatewayKind)
	if err := e.runtime.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, gateway); err != nil {
		return one(told(absent, "the Gateway %s/%s cannot be read: %v", namespace, name, err))
	}
	for _, condition := range []string{"Accepted", "Programmed"} {
		if problem := conditionProblem(gateway, condition); problem != "" {
			found = append(found, told("kubectl describe gateway -n "+namespace+" "+name+", on the runtime cluster", "the Gateway %s/%s: %s", namespace, name, problem))
		}
	}
	if len(found) == 0 && !admitsPlacements(gateway) {
		found = append(found, told("set allowedRoutes.namespaces.from of a listener to All, or to a Selector of app.kubernetes.io/managed-by=sandbar",
			"no listener of the Gateway %s/%s allows routes from the namespaces of placements", namespace, name))
	}
	return found
}

// conditionProblem says why a condition of an object is not true; empty if it is.
func conditionProblem(obj *unstructured.Unstructured, name string) string {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range list {
		c, _ := item.(map[string]any)
		if c["type"] != name {
			continue
		}
		if c["status"] == "True" {
			return ""
		}
		return fmt.Sprintf("%s is %v: %v: %v", name, c["status"], c["reason"], c["message"])
	}
	return name + " is not known: does a controller of the Gateway API run?"
}

// admitsPlacements reports whether a listener takes routes from other namespaces than its own. Which ones a Selector
// selects, only the controller of the Gateway says, in each route's status.
func admitsPlacements(gateway *unstructured.Unstructured) bool {
	listeners, _, _ := unstructured.NestedSlice(gateway.Object, "spec", "listeners")
	for _, item := range listeners {
		listener, _ := item.(map[string]any)
		from, _, _ := unstructured.NestedString(listener, "allowedRoutes", "namespaces", "from")
		if from == "All" || from == "Selector" {
			return true
		}
	}
	return false
}
