// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package template

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
)

// TestTemplateLifecycle goes through the life of one Template on the real kcp and kro.
func TestTemplateLifecycle(t *testing.T) {
	s := newStack(t)
	suffix := strconv.FormatInt(time.Now().UnixNano()%1e6, 10)
	name, kind := "it-"+suffix, "Thing"+suffix
	resource := strings.ToLower(kind) + "s"
	s.must(s.provider.Create(s.Context(), thing(name, kind, nil)))

	s.condition(name, sandbarv1alpha1.TemplateReady, reasonReady)
	first := s.template(name)
	if first.Status.Resource != resource || first.Status.SchemaName == "" {
		s.Fatalf("status = %+v, want the resource %s and a schema", first.Status, resource)
	}
	instance := instanceOf(kind, "one")
	s.eventually("a tenant creates an instance", func() (bool, error) {
		err := s.tenant.Create(s.Context(), instance.DeepCopy())
		return err == nil, err
	})

	s.Run("a tenant who is admin of its workspace cannot write the status", func() {
		forged := instanceOf(kind, "one")
		forged.Object["status"] = map[string]any{"phase": "Ready"}
		err := s.tenant.Status().Patch(s.Context(), forged, client.Merge)
		if !apierrors.IsForbidden(err) {
			s.Errorf("patching the status: %v, want Forbidden", err)
		}
	})

	s.Run("an incompatible change is refused and what is served stays", func() {
		s.update(name, func(tmpl *sandbarv1alpha1.Template) {
			tmpl.Spec.Graph = thing(name, kind, map[string]any{"size": "string", "must": "string | required=true"}).Spec.Graph
		})
		c := s.condition(name, sandbarv1alpha1.TemplateGraphAccepted, reasonIncompatible)
		for _, want := range []string{"spec.must is new and required", "spec.size: type changed from integer to string", "Nothing was changed"} {
			if !strings.Contains(c.Message, want) {
				s.Errorf("message %q does not say %q", c.Message, want)
			}
		}
		r := s.condition(name, sandbarv1alpha1.TemplateReady, reasonPrevious)
		if r.Status != metav1.ConditionTrue || r.ObservedGeneration != first.Generation {
			s.Errorf("Ready = %+v, want True for generation %d", r, first.Generation)
		}
		if got := s.template(name).Status.SchemaName; got != first.Status.SchemaName {
			s.Errorf("the schema is %s, want %s still", got, first.Status.SchemaName)
		}
	})

	s.Run("a change that kro would refuse does not take the place of what is served", func() {
		served := &krov1alpha1.ResourceGraphDefinition{}
		s.must(s.runtime.Get(s.Context(), client.ObjectKey{Name: name}, served))
		s.update(name, func(tmpl *sandbarv1alpha1.Template) {
			graph := string(thing(name, kind, nil).Spec.Graph.Raw)
			tmpl.Spec.Graph.Raw = []byte(strings.ReplaceAll(graph, "${service.metadata.uid}", "${nosuch.metadata.uid}"))
		})
		c := s.condition(name, sandbarv1alpha1.TemplateGraphAccepted, reasonRefused)
		if !strings.Contains(c.Message, "nosuch") || !strings.Contains(c.Message, "Nothing was changed") {
			s.Errorf("message %q does not say what kro would", c.Message)
		}
		s.condition(name, sandbarv1alpha1.TemplateReady, reasonPrevious)
		now := &krov1alpha1.ResourceGraphDefinition{}
		s.must(s.runtime.Get(s.Context(), client.ObjectKey{Name: name}, now))
		if now.ResourceVersion != served.ResourceVersion {
			s.Errorf("kro got the graph: generation %d, was %d", now.Generation, served.Generation)
		}
	})

	s.Run("a compatible change reaches bound tenants and the old schema is collected", func() {
		s.update(name, func(tmpl *sandbarv1alpha1.Template) {
			tmpl.Spec.Graph = thing(name, kind, map[string]any{"extra": "string | default=new"}).Spec.Graph
		})
		s.condition(name, sandbarv1alpha1.TemplateReady, reasonReady)
		s.eventually("the tenant's API has the new field", func() (bool, error) {
			two := instanceOf(kind, "two")
			_ = s.tenant.Delete(s.Context(), two.DeepCopy())
			err := s.tenant.Create(s.Context(), two)
			extra, _, _ := unstructured.NestedString(two.Object, "spec", "extra")
			return extra == "new", err
		})
		s.must(s.tenant.Delete(s.Context(), instanceOf(kind, "two")))
		s.eventually("the old schema is gone", func() (bool, error) {
			err := s.provider.Get(s.Context(), client.ObjectKey{Name: first.Status.SchemaName}, &kcpapisv1alpha1.APIResourceSchema{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	})

	s.Run("a Template in use is not removed, and takes no new instances", func() {
		s.must(s.provider.Delete(s.Context(), s.template(name)))
		c := s.condition(name, sandbarv1alpha1.TemplateReady, reasonInUse)
		if !strings.Contains(c.Message, "1 "+resource+" left") {
			s.Errorf("message %q does not count the instance", c.Message)
		}
		s.eventually("a new instance is refused", func() (bool, error) {
			err := s.tenant.Create(s.Context(), instanceOf(kind, fmt.Sprintf("late-%d", time.Now().UnixNano())), client.DryRunAll)
			return apierrors.IsForbidden(err), nil
		})
		s.must(s.tenant.Get(s.Context(), client.ObjectKeyFromObject(instance), instanceOf(kind, "one")))
	})

	s.Run("when the last instance is gone, so is all of the Template", func() {
		s.must(s.tenant.Delete(s.Context(), instanceOf(kind, "one")))
		s.eventually("the Template is gone", func() (bool, error) {
			err := s.provider.Get(s.Context(), client.ObjectKey{Name: name}, &sandbarv1alpha1.Template{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		s.nothingLeft(name, resource)
	})
}

func (s *stack) nothingLeft(template, resource string) {
	s.Helper()
	err := s.runtime.Get(s.Context(), client.ObjectKey{Name: template}, &krov1alpha1.ResourceGraphDefinition{})
	if !apierrors.IsNotFound(err) {
		s.Errorf("the graph: %v, want NotFound", err)
	}
	var schemas kcpapisv1alpha1.APIResourceSchemaList
	s.must(s.provider.List(s.Context(), &schemas, client.MatchingLabels{placement.LabelTemplate: template}))
	if len(schemas.Items) > 0 {
		s.Errorf("%d schemas are left", len(schemas.Items))
	}
	export := &kcpapisv1alpha2.APIExport{}
	s.must(s.provider.Get(s.Context(), client.ObjectKey{Name: "sandbar.dev"}, export))
	for _, entry := range export.Spec.Resources {
		if entry.Name == resource {
			s.Errorf("the export still offers %s", resource)
		}
	}
	role := &rbacv1.ClusterRole{}
	s.must(s.provider.Get(s.Context(), client.ObjectKey{Name: offer.PolicyRole}, role))
	for _, rule := range role.Rules {
		if offer.Concerns(rule, resource) {
			s.Errorf("the policy still has %v", rule)
		}
	}
}

// TestRefusals applies Templates that cannot be, and reads what their conditions advise.
func TestRefusals(t *testing.T) {
	s := newStack(t)
	suffix := strconv.FormatInt(time.Now().UnixNano()%1e6, 10)

	s.Run("a graph that kro refuses is reported in kro's words", func() {
		tmpl := thing("it-bad-"+suffix, "Bad"+suffix, nil)
		tmpl.Spec.Graph.Raw = []byte(strings.ReplaceAll(string(tmpl.Spec.Graph.Raw), "${service.metadata.uid}", "${nosuch.metadata.uid}"))
		s.must(s.provider.Create(s.Context(), tmpl))
		c := s.condition(tmpl.Name, sandbarv1alpha1.TemplateReady, reasonRefused)
		if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "nosuch") || !strings.Contains(c.Message, "apply the Template again") {
			s.Errorf("Ready = %+v, want kro's message and the remedy", c)
		}
		s.Log(c.Message)
		s.remove(tmpl)
	})

	s.Run("a contract with a missing status path is refused before anything is applied", func() {
		tmpl := thing("it-path-"+suffix, "Path"+suffix, nil)
		e := tmpl.Spec.DataPlane.Endpoints["log"]
		e.ServiceRef = "status.controlServiceRef"
		tmpl.Spec.DataPlane.Endpoints["log"] = e
		s.must(s.provider.Create(s.Context(), tmpl))
		c := s.condition(tmpl.Name, sandbarv1alpha1.TemplateReady, reasonInvalid)
		want := "spec.dataPlane.endpoints.log.serviceRef: status.controlServiceRef is not a status field of the graph (status has: made, ref)"
		if !strings.Contains(c.Message, want) {
			s.Errorf("message %q does not say %q", c.Message, want)
		}
		err := s.runtime.Get(s.Context(), client.ObjectKey{Name: tmpl.Name}, &krov1alpha1.ResourceGraphDefinition{})
		if !apierrors.IsNotFound(err) {
			s.Errorf("the graph: %v, want NotFound", err)
		}
		s.remove(tmpl)
	})

	s.Run("a graph of somebody else is not overwritten", func() {
		tmpl := thing("it-theirs-"+suffix, "Theirs"+suffix, nil)
		theirs := &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Name: tmpl.Name}}
		s.must(json.Unmarshal(tmpl.Spec.Graph.Raw, &theirs.Spec))
		s.must(s.runtime.Create(s.Context(), theirs))
		s.must(s.provider.Create(s.Context(), tmpl))
		s.condition(tmpl.Name, sandbarv1alpha1.TemplateReady, reasonNameTaken)
		s.remove(tmpl)
		s.must(s.runtime.Get(s.Context(), client.ObjectKeyFromObject(theirs), theirs))
		s.must(s.runtime.Delete(s.Context(), theirs))
	})

	s.Run("of two Templates of a kind the older one has it, and the other gets it when that is gone", func() {
		older, younger := thing("it-older-"+suffix, "Twin"+suffix, nil), thing("it-younger-"+suffix, "Twin"+suffix, nil)
		s.must(s.provider.Create(s.Context(), older))
		s.condition(older.Name, sandbarv1alpha1.TemplateReady, reasonReady)
		s.must(s.provider.Create(s.Context(), younger))
		c := s.condition(younger.Name, sandbarv1alpha1.TemplateReady, reasonKindTaken)
		if !strings.Contains(c.Message, older.Name) {
			s.Errorf("message %q does not name the other Template", c.Message)
		}
		s.remove(older)
		s.condition(younger.Name, sandbarv1alpha1.TemplateReady, reasonReady)
		s.remove(younger)
	})

	s.Run("placements are counted", func() {
		tmpl := thing("it-count-"+suffix, "Count"+suffix, nil)
		s.must(s.provider.Create(s.Context(), tmpl))
		s.condition(tmpl.Name, sandbarv1alpha1.TemplateReady, reasonReady)
		id := placement.ID{Origin: "c", UID: "it"}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: id.Namespace() + suffix, Labels: id.Labels(tmpl.Name),
			Annotations: map[string]string{placement.AnnotationProvider: logicalcluster.From(s.template(tmpl.Name)).String()},
		}}
		s.must(s.runtime.Create(s.Context(), ns))
		s.eventually("one placement is counted", func() (bool, error) { return s.template(tmpl.Name).Status.Instances == 1, nil })
		s.must(s.runtime.Delete(s.Context(), ns))
		s.eventually("none is counted", func() (bool, error) { return s.template(tmpl.Name).Status.Instances == 0, nil })
		s.remove(tmpl)
	})
}
