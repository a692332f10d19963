// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/conversion"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

// thingTypes is the kind of the kro instances for the field manager of an API server; %s is the type of spec.owner.
const thingTypes = `types:
- name: untyped
  scalar: untyped
  list: {elementType: {namedType: untyped}, elementRelationship: atomic}
  map: {elementType: {namedType: untyped}, elementRelationship: separable}
- name: meta
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: namespace, type: {scalar: string}}
    - {name: uid, type: {scalar: string}}
    - {name: resourceVersion, type: {scalar: string}}
    - {name: managedFields, type: {namedType: untyped}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: annotations, type: {map: {elementType: {scalar: string}}}}
    - {name: finalizers, type: {list: {elementType: {scalar: string}, elementRelationship: associative}}}
- name: thing
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: metadata, type: {namedType: meta}}
    - name: spec
      type:
        map:
          fields:
          - {name: note, type: {scalar: string}}
          - {name: owner, type: %s}
`

// thingConverter knows a thing's types.
type thingConverter struct{ typed.ParseableType }

func newThingConverter(t *testing.T, owner string) managedfields.TypeConverter {
	t.Helper()
	parser, err := typed.NewParser(typed.YAMLObject(fmt.Sprintf(thingTypes, owner)))
	if err != nil {
		t.Fatal(err)
	}
	return thingConverter{parser.Type("thing")}
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c thingConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return c.FromUnstructured(obj.(*unstructured.Unstructured).Object, opts...)
}

// TypedToObject implements managedfields.TypeConverter.
func (thingConverter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: value.AsValue().Unstructured().(map[string]any)}, nil
}

// apiServer holds one kro instance, and writes it as an API server does: with its field manager.
type apiServer struct {
	client.Client
	*testing.T
	managers *managedfields.FieldManager
	live     *unstructured.Unstructured
}

// newAPIServer holds a kro instance of the former form, applied by us and by kro. Its kind has the new form by now.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	thing := fixture.Thing.Composed().GVK
	s := &apiServer{T: t, live: fixture.NewScope().NewComposed()}
	s.managers = managedfieldstest.NewFakeFieldManager(newThingConverter(t, "{scalar: string}"), thing)
	s.live.SetUID("uid")
	s.apply("sandbar", map[string]any{"spec": map[string]any{"owner": "ann", "note": "x"}, "metadata": map[string]any{
		"labels": map[string]any{"ours": "1", "sandbar.dev/gone": "1"}, "annotations": map[string]any{"sandbar.dev/gone": "1"},
	}})
	s.kroApplies()
	s.managers = managedfieldstest.NewFakeFieldManager(newThingConverter(t, "{map: {fields: [{name: id, type: {scalar: string}}]}}"), thing)
	return s
}

func (s *apiServer) apply(manager string, fields map[string]any) {
	s.Helper()
	if err := s.tryApply(manager, fields); err != nil {
		s.Fatal(err)
	}
}

func (s *apiServer) kroApplies() {
	s.Helper()
	s.apply("kro.run/labeller", map[string]any{"metadata": map[string]any{"labels": map[string]any{"kro.run/owned": "1"}, "finalizers": []any{"kro.run/finalizer"}}})
}

func (s *apiServer) tryApply(manager string, fields map[string]any) error {
	config := fixture.NewScope().NewComposed()
	maps.Copy(config.Object, runtime.DeepCopyJSON(fields))
	applied, err := s.managers.Apply(s.live, config, manager, true)
	if err != nil {
		return err
	}
	s.store(applied)
	return nil
}

func (s *apiServer) store(obj runtime.Object) {
	number, _ := strconv.Atoi(s.live.GetResourceVersion())
	s.live = obj.(*unstructured.Unstructured)
	s.live.SetResourceVersion(strconv.Itoa(number + 1))
}

// Patch implements client.Writer for merge patches.
func (s *apiServer) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var change map[string]any
	if err := json.Unmarshal(data, &change); err != nil {
		return err
	}
	if version, _, _ := unstructured.NestedString(change, "metadata", "resourceVersion"); version != s.live.GetResourceVersion() {
		return apierrors.NewConflict(fixture.Thing.GVR().GroupResource(), "web", nil)
	}
	patched := s.live.DeepCopy()
	mergePatch(patched.Object, change)
	s.store(s.managers.UpdateNoErrors(s.live, patched, "sandbar"))
	s.live.DeepCopyInto(obj.(*unstructured.Unstructured))
	return nil
}

// Apply implements client.Writer.
func (s *apiServer) Apply(_ context.Context, config runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	raw, err := json.Marshal(config)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	return s.tryApply(fieldOwner, fields)
}

// write makes the kro instance what a tenant says, and fails the test if it is something else afterwards.
func (s *apiServer) write(conversions *conversion.Set, spec map[string]any) {
	s.Helper()
	desired := fixture.NewScope().NewComposed()
	desired.Object["spec"] = spec
	desired.SetLabels(map[string]string{"ours": "1"})
	c := runtimeCluster{client: s}
	if err := c.reshape(s.Context(), conversions, s.live.DeepCopy()); err != nil {
		s.Fatal(err)
	}
	if _, err := c.write(s.Context(), desired); err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(spec, s.live.Object["spec"]); diff != "" {
		s.Errorf("the spec (-want +got):\n%s", diff)
	}
	if labels := s.live.GetLabels(); !maps.Equal(labels, map[string]string{"ours": "1", "kro.run/owned": "1"}) || len(s.live.GetAnnotations()) != 0 || !slices.Equal(s.live.GetFinalizers(), []string{"kro.run/finalizer"}) {
		s.Errorf("labels %v, annotations %v, finalizers %v", labels, s.live.GetAnnotations(), s.live.GetFinalizers())
	}
}

func ownersConverted(t *testing.T) *conversion.Set {
	t.Helper()
	set, err := conversion.Compile([]sandbarv1alpha1.Conversion{{Field: "owner", Expression: "type(self) == string ? {'id': self} : self"}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Without the conversion the API server refuses each apply, and with it alone a field that a tenant removes
// later stays: the managers of the fields are lost with a write of such an object.
func TestAKroInstanceOfTheFormerFormIsWritten(t *testing.T) {
	set := ownersConverted(t)
	first, then := map[string]any{"owner": map[string]any{"id": "ann"}, "note": "x"}, map[string]any{"owner": map[string]any{"id": "bob"}}
	for name, before := range map[string]func(s *apiServer){
		"at once": func(*apiServer) {},
		"after kro has looked at it": func(s *apiServer) {
			if err := s.tryApply("kro.run/labeller", map[string]any{}); err == nil {
				s.Error("kro could apply to it")
			}
		},
		"after a process has ended between the writes": func(s *apiServer) {
			s.convertAlone(set)
		},
		"and kro has applied what is its own in between": func(s *apiServer) {
			s.convertAlone(set)
			s.kroApplies()
		},
		"and has been applied by this process": func(s *apiServer) {
			s.write(set, first)
			s.kroApplies()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			err := s.tryApply(fieldOwner, map[string]any{"spec": first})
			if err == nil || !strings.Contains(err.Error(), "failed to create typed live object") {
				t.Fatalf("an apply without the conversion: %v", err)
			}
			before(s)
			s.write(set, first)
			s.write(set, then)
			s.write(set, map[string]any{"note": "y"})
			for _, entry := range s.live.GetManagedFields() {
				if entry.Manager == beforeFirstApply {
					t.Errorf("%s owns %s", entry.Manager, entry.FieldsV1.GetRawString())
				}
			}
		})
	}
}

// convertAlone is the first of reshape's writes.
func (s *apiServer) convertAlone(set *conversion.Set) {
	s.Helper()
	spec, _ := s.live.Object["spec"].(map[string]any)
	converted, _, _ := set.Of(spec)
	read := s.live.DeepCopy()
	changed := read.DeepCopy()
	changed.Object["spec"] = converted
	if err := s.Patch(s.Context(), changed, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})); err != nil {
		s.Fatal(err)
	}
	if managers := s.live.GetManagedFields(); len(managers) != 0 {
		s.Errorf("the managers are %v", managers)
	}
}
