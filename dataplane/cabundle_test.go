// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A client needs the bundle before it sends its token, so nobody is asked for one.
func TestTheCABundleIsServedToEverybody(t *testing.T) {
	const bundle = "-----BEGIN CERTIFICATE-----\nbyte for byte\r\n-----END CERTIFICATE-----\n\n"
	const prefix = "/services/providers/infrastructure"
	provider := infrastructure(nil, previewDomain)
	w := newWorld(t, recorder(), func(s *setup) {
		s.opts.PathPrefix = prefix
		s.provider = append(s.provider, provider)
	})
	if res, body := w.do("GET", pathCA, "", nil); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "the roots of your system") {
		t.Errorf("without a bundle: %d, %s", res.StatusCode, body)
	}
	with := provider.DeepCopy()
	if err := unstructured.SetNestedField(with.Object, base64.StdEncoding.EncodeToString([]byte(bundle)), "spec", "dataPlane", "caBundle"); err != nil {
		t.Fatal(err)
	}
	w.configure(with)
	eventually(t, "the bundle is known", func() bool { return w.server.settings.now().caBundle != nil })
	for _, path := range []string{pathCA, prefix + pathCA} {
		res, body := w.do("GET", path, "", nil)
		if res.StatusCode != http.StatusOK || body != bundle || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v, %q", path, res.StatusCode, res.Header, body)
		}
	}
	for _, request := range []struct {
		method, path string
		code         int
	}{
		{"HEAD", pathCA, http.StatusOK},
		{"POST", pathCA, http.StatusMethodNotAllowed},
		{"GET", pathCA + "/x", http.StatusBadRequest},
		{"GET", pathCA + "?as=another", http.StatusOK},
	} {
		if res, body := w.do(request.method, request.path, "", nil); res.StatusCode != request.code || request.code == http.StatusOK && request.method == "HEAD" && body != "" {
			t.Errorf("%s %s: %d, want %d: %s", request.method, request.path, res.StatusCode, request.code, body)
		}
	}
	res, _ := w.do("GET", pathCA, "", nil, func(r *http.Request) { r.Host = "web--default." + previewDomain })
	if res.StatusCode == http.StatusOK {
		t.Error("a preview's host serves the data plane's own path, which is its app's")
	}
}
