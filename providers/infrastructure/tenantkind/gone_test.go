// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenantkind

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

// A set of a workspace that was deleted was looked at every thirty seconds for as long as the process ran.
func TestAnObjectThatIsGoneWithItsWorkspaceIsNotLookedAtAgain(t *testing.T) {
	denied := fmt.Errorf("reading it: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "throwaways"}, "web", errors.New("access denied")))
	for name, c := range map[string]struct {
		shown bool
		err   error
		want  error
	}{
		"denied and not shown":            {err: denied},
		"denied, and the watch shows it":  {shown: true, err: denied, want: denied},
		"not reached":                     {err: context.DeadlineExceeded, want: context.DeadlineExceeded},
		"well, though not shown any more": {},
	} {
		inner := reconcile.TypedFunc[export.Key](func(context.Context, export.Key) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Second}, c.err
		})
		result, err := letsGo{inner, func(export.Key) bool { return c.shown }}.Reconcile(t.Context(), export.Key{})
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: it fails with %v", name, err)
		}
		if again := result.RequeueAfter != 0; again != (name != "denied and not shown") {
			t.Errorf("%s: it is looked at again: %t", name, again)
		}
	}
}
