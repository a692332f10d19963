// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Annotations that kcp copies from a provider's APIExport to every APIBinding of it.
const (
	annotationURL = "extra.apis.kcp.io/dataplane-url"
	annotationCA  = "extra.apis.kcp.io/dataplane-ca-sha256"
)

const (
	// maxBundle bounds a CA bundle that is fetched; those of whole operating systems have 220 KiB.
	maxBundle = 1 << 20
	// fetchTimeout bounds how long that takes.
	fetchTimeout = 15 * time.Second
)

// Offer is a data plane that an APIBinding of a workspace names. Whether it may get the caller's
// credential is for a person to decide: a workspace can be bound to anybody's provider.
type Offer struct {
	// Binding is the name of the APIBinding.
	Binding string
	// URL is the base URL of the data plane.
	URL string
	// CAHash is the SHA-256 of the CA bundle that verifies it, in hexadecimal; empty if the roots of
	// every system do.
	CAHash string
	// Resources are those that the binding serves in the workspace.
	Resources []schema.GroupResource

	// unverified is set if the workspace itself was reached without verification: then the hash may be
	// anybody's.
	unverified bool
	// proxy is the way to the data plane.
	proxy func(*http.Request) (*url.URL, error)
}

// CAMismatchError means that what a data plane gives as its CA bundle is not the bundle that the workspace's
// APIBinding names. Either the provider has changed it a moment ago, or somebody is in between.
type CAMismatchError struct {
	URL, Binding string
	// Expected is the hash that the binding names, Found that of the bundle.
	Expected, Found string
}

// Error implements error.
func (e *CAMismatchError) Error() string {
	return fmt.Sprintf("the CA bundle of %s is not the one that the binding %s names: expected SHA-256 %s, found %s; ask the people who run the provider",
		e.URL, e.Binding, e.Expected, cmp.Or(e.Found, "no bundle"))
}

// Offers returns the data planes that the APIBindings of a workspace name. The caller needs the right to list
// apibindings.apis.kcp.io there.
func Offers(ctx context.Context, workspace *rest.Config) ([]Offer, error) {
	objects, err := dynamic.NewForConfig(WithoutRedirects(workspace))
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	bindings, err := objects.Resource(schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the workspace's APIBindings: %w", err)
	}
	var found []Offer
	for i := range bindings.Items {
		b := &bindings.Items[i]
		address := b.GetAnnotations()[annotationURL]
		if address == "" {
			continue
		}
		found = append(found, Offer{
			Binding: b.GetName(), URL: address, CAHash: strings.ToLower(b.GetAnnotations()[annotationCA]), Resources: boundResources(b),
			unverified: unverified(workspace), proxy: proxyOf(workspace),
		})
	}
	return found, nil
}

func boundResources(binding *unstructured.Unstructured) []schema.GroupResource {
	list, _, _ := unstructured.NestedSlice(binding.Object, "status", "boundResources")
	var found []schema.GroupResource
	for _, item := range list {
		if bound, ok := item.(map[string]any); ok {
			group, _, _ := unstructured.NestedString(bound, "group")
			resource, _, _ := unstructured.NestedString(bound, "resource")
			found = append(found, schema.GroupResource{Group: group, Resource: resource})
		}
	}
	return found
}

// unverified reports whether a workspace is reached without TLS, or with TLS that anybody could end.
func unverified(workspace *rest.Config) bool {
	u, err := url.Parse(workspace.Host)
	return err != nil || u.Scheme != "https" || workspace.Insecure
}

// Serves reports whether the instances of a resource are those of the binding.
func (o Offer) Serves(resource schema.GroupResource) bool {
	return slices.Contains(o.Resources, resource)
}

// DataPlane returns the data plane with the CA bundle that verifies it. The bundle comes from the data plane
// itself, over a connection that nothing verifies and that carries no credential; it counts only if it has the
// hash that the workspace names, and if the data plane's certificate is one of it. Otherwise the error is a
// *CAMismatchError or says what is wrong.
func (o Offer) DataPlane(ctx context.Context) (DataPlane, error) {
	plane := DataPlane{URL: strings.TrimRight(o.URL, "/")}
	if err := plane.Check(); err != nil || o.CAHash == "" {
		return plane, err
	}
	if o.unverified {
		return DataPlane{}, fmt.Errorf("the hash of the CA of %s comes from a workspace that is not verified itself (http, or insecure-skip-tls-verify in the kubeconfig): pass the CA bundle that the people who run the provider gave you", o.URL)
	}
	bundle, certificates, err := fetchBundle(ctx, plane.URL, o.proxy)
	if err != nil {
		return DataPlane{}, err
	}
	// The attack: somebody between the client and the data plane gives a bundle of their own, and gets
	// the caller's token afterwards.
	if err := o.Verify(bundle); err != nil {
		return DataPlane{}, err
	}
	plane.CABundle = bundle
	return plane, plane.verifies(certificates)
}

// Verify reports whether a bundle is the one that the binding names, with a *CAMismatchError if it is not.
func (o Offer) Verify(bundle []byte) error {
	found := ""
	if len(bundle) > 0 {
		sum := sha256.Sum256(bundle)
		found = hex.EncodeToString(sum[:])
	}
	if found != o.CAHash {
		return &CAMismatchError{URL: o.URL, Binding: o.Binding, Expected: o.CAHash, Found: found}
	}
	return nil
}

// caPath is where a data plane gives its CA bundle.
const caPath = "/dataplane/ca"

// fetchBundle reads the CA bundle of a data plane, and the certificates that its server has shown.
func fetchBundle(ctx context.Context, address string, proxy func(*http.Request) (*url.URL, error)) ([]byte, []*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	pool := &http.Transport{
		Proxy: proxy, TLSHandshakeTimeout: fetchTimeout, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // DataPlane checks what comes
	}
	client := &http.Client{Transport: pool, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+caPath, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("fetching the CA bundle: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("fetching the CA bundle: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("fetching the CA bundle: %s answers %d: pass the bundle that the people who run the provider gave you", address+caPath, res.StatusCode)
	}
	bundle, err := io.ReadAll(io.LimitReader(res.Body, maxBundle+1)) //nolint:forbidigo // maxBundle
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("fetching the CA bundle: %w", err)
	case len(bundle) > maxBundle:
		return nil, nil, fmt.Errorf("fetching the CA bundle: that of %s has more than %d bytes", address, maxBundle)
	case res.TLS == nil || len(res.TLS.PeerCertificates) == 0:
		return nil, nil, errors.New("fetching the CA bundle: the server shows no certificate")
	}
	return bundle, res.TLS.PeerCertificates, nil
}

// verifies reports whether the bundle verifies the certificates of a server of the data plane. The attack: a
// bundle is public, so somebody in between can pass on the right one.
func (d DataPlane) verifies(certificates []*x509.Certificate) error {
	roots, err := rootsOf(d.CABundle)
	if err != nil {
		return fmt.Errorf("reading the CA bundle of %s: %w", d.URL, err)
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		return fmt.Errorf("reading the address of the data plane: %w", err)
	}
	between := x509.NewCertPool()
	for _, c := range certificates[1:] {
		between.AddCert(c)
	}
	if _, err := certificates[0].Verify(x509.VerifyOptions{DNSName: u.Hostname(), Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("the certificate of %s is not one of the CA that the workspace's binding names; somebody may be in between, or the server has another certificate: %w", d.URL, err)
	}
	return nil
}

// Is reports whether an address leads to the data plane: whether the scheme, the host and the port are the same.
func (d DataPlane) Is(address string) bool {
	own, err := originOf(d.URL)
	if err != nil {
		return false
	}
	other, err := originOf(address)
	return err == nil && own == other
}
