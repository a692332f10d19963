// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestARunnersVerbNeedsDevelopmentModeAndSaysSo(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) {
		s.template.Spec.Development = &sandbarv1alpha1.Development{Components: map[string]sandbarv1alpha1.DevelopmentComponent{
			"api": {WorkspacePath: "api", Image: "python", StartCommand: "python3 server.py"},
		}}
	})
	const sync = demo + "components/api/sync"
	res, body := w.do("POST", sync, adminToken, nil)
	status := wantStatus(t, res, body, http.StatusConflict)
	if !strings.Contains(status.Message, "set its spec.mode to development") || res.Header.Get("Retry-After") != "" {
		t.Errorf("in production: %q, Retry-After %q", status.Message, res.Header.Get("Retry-After"))
	}
	if res, body := w.do("POST", demo+"components/web/sync", adminToken, nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("a component that is not listed: %d %s", res.StatusCode, body)
	}

	change := func(edit func(object map[string]any)) {
		t.Helper()
		client := w.kros.Resource(runners).Namespace(demoID.Namespace())
		obj, err := client.Get(t.Context(), "demo", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		edit(obj.Object)
		if _, err := client.Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	change(func(object map[string]any) { object["spec"].(map[string]any)["mode"] = "development" })
	eventually(t, "the switch is seen, and kro has not made the runner's Service", func() bool {
		res, body := w.do("POST", sync, adminToken, nil)
		return res.StatusCode == http.StatusConflict && strings.Contains(body, "no endpoint for this verb yet")
	})
	change(func(object map[string]any) {
		object["status"].(map[string]any)["development"] = map[string]any{"api": map[string]any{
			"controlServiceRef": map[string]any{"name": "control", "namespace": demoID.Namespace()},
		}}
	})
	eventually(t, "the runner is reached", func() bool {
		res, body := w.do("POST", sync, adminToken, nil)
		return res.StatusCode == http.StatusOK && strings.Contains(body, "/sync")
	})
}
