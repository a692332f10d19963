// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer/offertest"
	"github.com/sandbar-dev/sandbar/templates"
)

// kubectl explain was empty for what tenants write most.
func TestEveryFieldThatATenantWritesHasASentence(t *testing.T) {
	for _, name := range templates.Names() {
		t.Run(name, func(t *testing.T) {
			tmpl, err := templates.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := newPlan(tmpl)
			if err != nil {
				t.Fatal(err)
			}
			crd := madeByKro(t, p)
			crd.Spec.Names.Kind = p.kind
			schema, err := buildSchema(tmpl, p, crd)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string(nil), offertest.Undescribed(t, schema)); diff != "" {
				t.Errorf("fields without a description:\n%s", diff)
			}
		})
	}
}
