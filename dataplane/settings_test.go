// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
)

// infrastructure is an InfrastructureProvider with limits and a preview domain.
func infrastructure(limits map[string]any, previewDomain string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "InfrastructureProvider",
		"metadata": map[string]any{"name": sandbarv1alpha1.InfrastructureProviderName},
		"spec": map[string]any{
			"dataPlane": map[string]any{"url": "https://data.example.com", "previewDomain": previewDomain},
			"limits":    limits,
		},
	}}
}

// lasting is an InfrastructureProvider that says how long previews' sessions last.
func lasting(seconds int64) *unstructured.Unstructured {
	obj := infrastructure(nil, previewDomain)
	_ = unstructured.SetNestedField(obj.Object, seconds, "spec", "dataPlane", "previewSessionSeconds")
	return obj
}

// configure makes or replaces the InfrastructureProvider.
func (w *world) configure(obj *unstructured.Unstructured) {
	w.t.Helper()
	providers := w.provider.Resource(providersResource)
	_, err := providers.Update(context.Background(), obj, metav1.UpdateOptions{})
	if err != nil {
		_, err = providers.Create(context.Background(), obj, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestEveryLimitHasAFieldInTheInfrastructureProvider(t *testing.T) {
	var limits limit.Limits
	limits.SetDefaults()
	spec := &sandbarv1alpha1.DataPlaneLimits{}
	fields := reflect.ValueOf(spec).Elem()
	want := map[string]float64{}
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
		value := 5000 + i
		fields.Field(i).SetInt(int64(value))
		want[name] = float64(value)
	}
	if n := reflect.TypeFor[limit.Limits]().NumField(); n != len(want) || len(limits.ByName()) != n {
		t.Fatalf("%d limits, %d fields, %d names", n, len(want), len(limits.ByName()))
	}
	limits.Override(spec)
	if diff := cmp.Diff(want, limits.ByName()); diff != "" {
		t.Error(diff)
	}
}

func TestLimitsFollowTheInfrastructureProvider(t *testing.T) {
	first := infrastructure(map[string]any{"bodyBytes": int64(2000), "headerBytes": int64(8192)}, "preview.example.com:8443")
	w := newWorld(t, recorder(), func(s *setup) { s.provider = append(s.provider, first) })
	settings := w.server.settings
	if got := settings.now(); got.previewDomain != "preview.example.com:8443" || got.limits.BodyBytes != 2000 || got.limits.HeaderBytes != 8192 || got.limits.InstanceRequests != 64 {
		t.Fatalf("at the start: %+v", got)
	}
	post := func(size int) int {
		res, _ := w.do("POST", demo+"sync", adminToken, strings.NewReader(strings.Repeat("x", size)))
		return res.StatusCode
	}
	if got := post(2001); got != http.StatusRequestEntityTooLarge {
		t.Errorf("above bodyBytes: %d", got)
	}

	w.configure(infrastructure(map[string]any{"bodyBytes": int64(4000), "headerBytes": int64(16384), "workspaceRate": int64(7)}, ""))
	eventually(t, "the change is in force", func() bool { return settings.limits().BodyBytes == 4000 })
	if got := settings.now(); got.limits.HeaderBytes != 8192 || got.limits.WorkspaceRate != 7 || got.previewDomain != "" {
		t.Errorf("after the change: %+v", got)
	}
	if got := post(2001); got != http.StatusOK {
		t.Errorf("below the new bodyBytes: %d", got)
	}
	if log := w.logs.String(); !strings.Contains(log, `"msg":"a limit takes effect at restart","limit":"headerBytes","now":8192,"then":16384`) {
		t.Errorf("the log does not say that headerBytes takes effect at restart:\n%s", log)
	}
	for _, line := range []string{`sandbar_dataplane_limit{limit="bodyBytes"} 4000`, `sandbar_dataplane_limit{limit="headerBytes"} 8192`} {
		if !strings.Contains(w.scrape(), line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

func TestABrokenInfrastructureProviderChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		limits map[string]any
		domain string
		logged string
	}{
		"a negative limit":             {map[string]any{"instanceRequests": int64(-1)}, "", "limits that cannot be"},
		"a header that fits no token":  {map[string]any{"headerBytes": int64(10)}, "", "limits that cannot be"},
		"a limit of another type":      {map[string]any{"instanceRequests": "many"}, "", "cannot be decoded"},
		"a domain that is no host":     {nil, "preview.example.com/path", "no host name"},
		"a limit of zero is no limit":  {map[string]any{"instanceRequests": int64(0)}, "", ""},
		"an object without any limits": {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, recorder())
			before := w.server.settings.limits()
			done := make(chan struct{}, 1)
			w.server.settings.onChange(func() { done <- struct{}{} })
			w.configure(infrastructure(c.limits, c.domain))
			if c.logged == "" {
				<-done
			} else {
				eventually(t, "the log tells", func() bool { return strings.Contains(w.logs.String(), c.logged) })
			}
			if diff := cmp.Diff(before, w.server.settings.limits()); diff != "" {
				t.Error(diff)
			}
			if got := w.server.settings.now().previewDomain; got != "" {
				t.Errorf("the preview domain is %q", got)
			}
		})
	}
}

func TestWithoutAnInfrastructureProviderLimitsHaveTheirDefaults(t *testing.T) {
	w := newWorld(t, recorder())
	var want limit.Limits
	want.SetDefaults()
	if diff := cmp.Diff(&want, w.server.settings.limits()); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(w.logs.String(), "there is no InfrastructureProvider") {
		t.Error("the log does not tell")
	}

	w.configure(infrastructure(map[string]any{"bodyBytes": int64(4000)}, ""))
	eventually(t, "the limit is in force", func() bool { return w.server.settings.limits().BodyBytes == 4000 })
	if err := w.provider.Resource(providersResource).Delete(context.Background(), sandbarv1alpha1.InfrastructureProviderName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log tells", func() bool { return strings.Contains(w.logs.String(), "the InfrastructureProvider is gone") })
	if got := w.server.settings.limits().BodyBytes; got != 4000 {
		t.Errorf("a deleted object changed the limit to %d", got)
	}
}

// scrape reads the metrics.
func (w *world) scrape() string {
	w.t.Helper()
	res, err := w.client.Get(w.metrics + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}
