// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Status writes of our own are no news: with them an object whose refusal was worded anew each time
// made 145 writes in six seconds.
func TestOnlyWhatATenantChangesWakesItsInstance(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"a status":                  {change: func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "2" }},
		"a spec":                    {change: func(o *metav1.PartialObjectMetadata) { o.Generation++ }, want: true},
		"a label":                   {change: func(o *metav1.PartialObjectMetadata) { o.Labels = map[string]string{"a": "b"} }, want: true},
		"an annotation":             {change: func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{"a": "b"} }, want: true},
		"an owner":                  {change: func(o *metav1.PartialObjectMetadata) { o.OwnerReferences = []metav1.OwnerReference{{UID: "o"}} }, want: true},
		"a finalizer taken away":    {change: func(o *metav1.PartialObjectMetadata) { o.Finalizers = nil }, want: true},
		"a deletion":                {change: func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = &metav1.Time{} }, want: true},
		"another object in between": {change: func(o *metav1.PartialObjectMetadata) { o.UID = "another" }, want: true},
	} {
		before := thing.Metadata()
		before.UID, before.Generation, before.ResourceVersion = types.UID("u"), 1, "1"
		before.Finalizers = []string{"sandbar.dev/placement"}
		after := before.DeepCopy()
		test.change(after)
		if got := tenantMatters(before, after); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAnObjectOfNoClusterHasNoKey(t *testing.T) {
	obj := thing.Metadata()
	obj.Namespace, obj.Name = web.Namespace, web.Name
	if _, ok := KeyOf(obj); ok {
		t.Error("it has a key")
	}
	obj.Annotations = map[string]string{"kcp.io/cluster": web.Cluster}
	if key, ok := KeyOf(obj); !ok || key != web {
		t.Errorf("%v, %v", key, ok)
	}
}
