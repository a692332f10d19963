// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

// The data plane follows references that stand in the runtime's status only, but nothing may
// let a tenant write even its own.
func TestNoRuleLetsATenantWriteAStatus(t *testing.T) {
	dp := &sandbarv1alpha1.DataPlane{
		Endpoints: map[string]sandbarv1alpha1.Endpoint{"status": {From: "instanceStatus"}, "log": {}, "proxy": {ServiceRef: "status.ref"}},
		Components: map[string]sandbarv1alpha1.Component{
			"api": {Endpoints: map[string]sandbarv1alpha1.Endpoint{"status": {}, "sync": {}, "log": {}}},
		},
	}
	got := tenantRules("things", dp, offer.AllVerbs)
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"sandbar.dev"}, Resources: []string{"things"}, Verbs: []string{"*"}},
		{APIGroups: []string{"sandbar.dev"}, Resources: []string{"things/status"}, Verbs: []string{"get"}},
		{APIGroups: []string{"sandbar.dev"}, Resources: []string{"things/log", "things/proxy", "things/sync"}, Verbs: []string{"*"}},
		{APIGroups: []string{"sandbar.dev"}, Resources: []string{"things/proxy-url"}, Verbs: []string{"create", "delete"}},
		{APIGroups: []string{"sandbar.dev"}, Resources: []string{"things/renew"}, Verbs: []string{"create"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if slices.Contains(offer.AllButCreate, "create") || slices.Contains(offer.AllButCreate, "*") {
		t.Error("a Template that is to go takes new instances")
	}
}
