// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

func TestAComponentThatDoesNotExistIsAMistakeInTheCall(t *testing.T) {
	components := []string{"components/web/log", "components/api/log", "components/api/exec", "status"}
	for name, c := range map[string]struct {
		verbs []string
		named string
		want  string // the error
	}{
		"one of them":                    {verbs: components, named: "api"},
		"the instance":                   {verbs: components},
		"another":                        {verbs: components, named: "wbe", want: "app has no component wbe; there are api, web"},
		"one of a kind without":          {verbs: []string{"log"}, named: "api", want: "app has no components"},
		"one of a status without verbs":  {named: "api"},
		"the beginning of a name is not": {verbs: components, named: "ap", want: "app has no component ap; there are api, web"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetName("app")
			i := &client.Instance{Object: obj, Status: sandbarv1alpha1.InstanceStatus{DataPlane: &sandbarv1alpha1.InstanceDataPlane{Verbs: c.verbs}}}
			_, err := Component(i, c.named)
			var mistake *UsageError
			switch {
			case c.want == "" && err != nil, c.want != "" && (!errors.As(err, &mistake) || err.Error() != c.want):
				t.Errorf("it fails with %v, want %q", err, c.want)
			case errors.Is(err, ErrNoComponents) != (c.want == "app has no components"):
				t.Errorf("whether the kind has components is wrong in %v", err)
			}
		})
	}
}
