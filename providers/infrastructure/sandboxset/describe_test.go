// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer/offertest"
)

func TestEveryFieldThatATenantWritesHasASentence(t *testing.T) {
	schema, err := Kind.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string(nil), offertest.Undescribed(t, schema)); diff != "" {
		t.Errorf("fields without a description:\n%s", diff)
	}
}
