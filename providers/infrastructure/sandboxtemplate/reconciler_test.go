// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
)

// world is a workspace's SandboxTemplates, the operator's settings and a runtime cluster.
type world struct {
	t         *testing.T
	templates map[string]*sandbarv1alpha1.SandboxTemplate
	// shown are those that the watch shows, and reads counts the answers of kcp.
	shown  map[string]*sandbarv1alpha1.SandboxTemplate
	reads  int
	writes int
	// refuse is what the API server says of pods, and pods are how many were tried.
	refuse error
	pods   int
	level  string
	woken  []string
	told   []string
	r      *reconciler
}

func keyOf(name string) export.Key {
	return export.Key{Cluster: "c", NamespacedName: types.NamespacedName{Namespace: "n", Name: name}}
}

func newWorld(t *testing.T, configured bool) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, sandbarv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, templates: map[string]*sandbarv1alpha1.SandboxTemplate{}}
	provider := fake.NewClientBuilder().WithScheme(scheme)
	if configured {
		provider = provider.WithObjects(&sandbarv1alpha1.InfrastructureProvider{ObjectMeta: metav1.ObjectMeta{
			Name: sandbarv1alpha1.InfrastructureProviderName, Annotations: map[string]string{logicalcluster.AnnotationKey: "root-sandbar"},
		}})
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			options := (&client.CreateOptions{}).ApplyOptions(opts)
			if pod, ok := obj.(*corev1.Pod); !ok || len(options.DryRun) == 0 || pod.Namespace != triesID("root-sandbar").Namespace() {
				t.Errorf("%T %s is made", obj, obj.GetName())
			}
			for key, value := range obj.GetLabels() {
				for _, problem := range validation.IsValidLabelValue(value) {
					t.Errorf("the label %s=%q of a pod that is tried: %s", key, value, problem)
				}
			}
			w.pods++
			return w.refuse
		},
		Apply: func(_ context.Context, _ client.WithWatch, obj runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			raw, err := json.Marshal(obj)
			if err != nil {
				t.Error(err)
			}
			var ns corev1.Namespace
			if err := json.Unmarshal(raw, &ns); err != nil || ns.Name != triesID("root-sandbar").Namespace() {
				t.Errorf("%s is applied: %v", raw, err)
			}
			w.level = ns.Labels["pod-security.kubernetes.io/enforce"]
			if ns.Labels[placement.LabelPurpose] != placement.PurposeTries || ns.Annotations["kubernetes.io/description"] == "" || ns.Annotations[placement.AnnotationProvider] != "root-sandbar" {
				t.Errorf("the namespace does not say what it is: %v, %v", ns.Labels, ns.Annotations)
			}
			return nil
		},
	}).Build()
	templates := newTemplates([]Reader{w}, nil)
	templates.objects, templates.wake = w, func(key export.Key) { w.woken = append(w.woken, key.Name) }
	w.r = newReconciler(templates, provider.Build(), cluster)
	return w
}

// TemplateChanged implements Reader.
func (w *world) TemplateChanged(key export.Key) { w.told = append(w.told, key.Name) }

// Shown implements objects: what the watch shows, or nothing.
func (w *world) Shown(key export.Key) (metav1.Object, bool) {
	template := w.shown[key.Name]
	return template, template != nil
}

// Live implements objects.
func (w *world) Live(_ context.Context, key export.Key) (*unstructured.Unstructured, error) {
	w.reads++
	template := w.templates[key.Name]
	if template == nil || key != keyOf(key.Name) {
		return nil, apierrors.NewNotFound(kind.GVR().GroupResource(), key.Name)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	return &unstructured.Unstructured{Object: fields}, err
}

// Patch implements objects.
func (w *world) Patch(_ context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	w.writes++
	if diff := cmp.Diff([]string{"status"}, subresources); diff != "" {
		w.t.Errorf("not the status is written: %s", diff)
	}
	before, err := json.Marshal(w.templates[key.Name])
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, err
	}
	template := &sandbarv1alpha1.SandboxTemplate{}
	w.templates[key.Name] = template
	return nil, json.Unmarshal(after, template)
}

func (w *world) add(name string, spec sandbarv1alpha1.SandboxTemplateSpec) {
	template := &sandbarv1alpha1.SandboxTemplate{Spec: spec}
	template.Name, template.Namespace, template.UID, template.Generation = name, "n", types.UID("uid-"+name), 1
	w.templates[name] = template
}

func (w *world) look(name string) time.Duration {
	w.t.Helper()
	result, err := w.r.Reconcile(w.t.Context(), keyOf(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (w *world) valid(name string) metav1.Condition {
	w.t.Helper()
	c := meta.FindStatusCondition(w.templates[name].Status.Conditions, sandbarv1alpha1.SandboxTemplateValid)
	if c == nil {
		w.t.Fatalf("%s has no condition", name)
	}
	return *c
}

func own(edit ...func(*corev1.PodSpec)) sandbarv1alpha1.SandboxTemplateSpec {
	pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}}
	for _, f := range edit {
		f(&pod)
	}
	return sandbarv1alpha1.SandboxTemplateSpec{Template: &sandbarv1alpha1.PodTemplate{Spec: pod}}
}

// in is a template of its own in a placement class.
func in(class string) sandbarv1alpha1.SandboxTemplateSpec {
	spec := own()
	spec.PlacementClass = class
	return spec
}

func on(name string) sandbarv1alpha1.SandboxTemplateSpec {
	return sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: &sandbarv1alpha1.PodTemplateRef{Kind: sandbarv1alpha1.RefSandboxTemplate, Name: name}}
}

func TestTheConditionSaysWhetherSandboxesCanBeMade(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "sandbox-try", errors.New("violates PodSecurity"))
	for name, test := range map[string]struct {
		spec         sandbarv1alpha1.SandboxTemplateSpec
		unconfigured bool
		refuse       error
		reason, word string
	}{
		"a pod of its own":               {spec: own(), reason: "Valid", word: "would have its pod"},
		"one on another":                 {spec: on("good"), reason: "Valid"},
		"one on one that is not there":   {spec: on("nosuch"), reason: "TemplateNotUsable", word: `"nosuch"`},
		"a field of the operator's":      {spec: own(func(p *corev1.PodSpec) { p.NodeName = "chosen" }), reason: "SpecRefused", word: "correct spec.template: spec.nodeName"},
		"a pod that the cluster refuses": {spec: own(), refuse: forbidden, reason: "PodRefused", word: "violates PodSecurity"},
		"in a class that there is not":   {spec: in("nosuch"), reason: "PlacementClassUnknown", word: `spec.placementClass: there is no placement class "nosuch"`},
		"before there are settings":      {spec: own(), unconfigured: true, reason: "NotConfigured", word: "not configured"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, !test.unconfigured)
			w.refuse = test.refuse
			w.add("good", own())
			w.add("it", test.spec)
			again := w.look("it")
			c := w.valid("it")
			if c.Reason != test.reason || !strings.Contains(c.Message, test.word) || strings.Contains(c.Message, "sandbox-try") {
				t.Errorf("%+v, want %s and %q", c, test.reason, test.word)
			}
			isValid := test.reason == "Valid"
			if (c.Status == metav1.ConditionTrue) != isValid || (w.templates["it"].Status.PodHash != "") != isValid || (again == 0) != isValid {
				t.Errorf("status %s, hash %q, again in %s", c.Status, w.templates["it"].Status.PodHash, again)
			}
			if writes := w.writes; w.look("it") != again || w.writes != writes {
				t.Errorf("%d writes at rest", w.writes-writes)
			}
			if isValid && w.level != "restricted" {
				t.Errorf("pods are tried where the level is %q", w.level)
			}
		})
	}
}

// A merge patch keeps what it does not name: the hash of the former pod stayed, and was written again at every
// look for as long as the template was refused.
func TestATemplateThatIsRefusedLosesItsHashWithOneWrite(t *testing.T) {
	w := newWorld(t, true)
	w.add("it", own())
	w.look("it")
	if w.templates["it"].Status.PodHash == "" {
		t.Fatal("it has no hash")
	}
	w.refuse = apierrors.NewForbidden(corev1.Resource("pods"), "sandbox-try", errors.New("violates PodSecurity"))
	w.writes = 0
	for range 3 {
		w.look("it")
	}
	if status := w.templates["it"].Status; status.PodHash != "" || w.writes != 1 {
		t.Errorf("the hash is %q after %d writes", status.PodHash, w.writes)
	}
}

func TestTheNamespaceInWhichPodsAreTriedComesBack(t *testing.T) {
	w := newWorld(t, true)
	w.add("it", own())
	w.refuse = apierrors.NewNotFound(corev1.Resource("namespaces"), triesID("root-sandbar").Namespace())
	if _, err := w.r.Reconcile(t.Context(), keyOf("it")); err == nil {
		t.Fatal("a pod that was not tried is not an error")
	}
	w.refuse, w.level = nil, ""
	w.look("it")
	if w.level != "restricted" || w.valid("it").Reason != "Valid" {
		t.Errorf("the namespace has level %q, the condition is %+v", w.level, w.valid("it"))
	}
}

func TestTheSamePodHasTheSameHash(t *testing.T) {
	w := newWorld(t, true)
	w.add("a", own())
	w.add("b", on("a"))
	w.add("c", own(func(p *corev1.PodSpec) { p.Containers[0].Image = "another" }))
	hashes := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		w.look(name)
		hashes[name] = w.templates[name].Status.PodHash
	}
	if hashes["a"] != hashes["b"] || hashes["a"] == hashes["c"] {
		t.Errorf("%v", hashes)
	}
}

// Sets and Sandboxes keep what they had read of a SandboxTemplate until something wakes them: a set that was not
// woken offered the pods of the former template for as long as nobody touched it.
func TestAllThatReferToATemplateAreToldThatItIsAnother(t *testing.T) {
	w := newWorld(t, true)
	w.add("base", own())
	w.add("rests", on("base"))
	w.add("beside", own())
	for _, name := range []string{"base", "rests", "beside"} {
		w.look(name)
	}
	told := func(what string, change func(), woken, told []string) {
		t.Helper()
		w.woken, w.told = nil, nil
		change()
		w.look("base")
		if diff := cmp.Diff(woken, w.woken); diff != "" {
			t.Errorf("%s, SandboxTemplates (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(told, w.told); diff != "" {
			t.Errorf("%s, others (-want +got):\n%s", what, diff)
		}
	}
	told("it is as it was", func() {}, nil, nil)
	told("it goes", func() { delete(w.templates, "base") }, []string{"rests"}, []string{"rests", "base"})
	told("it is still gone", func() {}, nil, nil)
	told("it comes", func() { w.add("base", own()) }, []string{"rests"}, []string{"rests", "base"})
	told("it is made again before anybody has seen that it was gone", func() {
		w.add("base", own())
		w.templates["base"].UID = "another"
	}, []string{"rests"}, []string{"rests", "base"})
	t.Run("but not because the provider starts", func(t *testing.T) {
		w.r = newReconciler(w.r.templates, w.r.provider, w.r.tries.runtime)
		told("a new process looks at it", func() {}, nil, nil)
	})
	t.Run("and not what has gone", func(t *testing.T) {
		delete(w.templates, "rests")
		w.r.known[keyOf("rests")] = "uid-rests"
		w.look("rests")
		told("it goes", func() { delete(w.templates, "base") }, nil, []string{"base"})
	})
}

func TestATemplateThatRestsOnOneThatComesBecomesValid(t *testing.T) {
	w := newWorld(t, true)
	w.add("waits", on("base"))
	w.look("waits")
	w.add("base", own())
	w.look("base")
	if diff := cmp.Diff([]string{"waits"}, w.woken); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	w.look("waits")
	if c := w.valid("waits"); c.Reason != "Valid" {
		t.Errorf("%+v", c)
	}
}

func TestTheSchemaHasAPodInIt(t *testing.T) {
	schema, err := kind.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if len(schema.Spec.Versions) != 1 || !strings.Contains(string(schema.Spec.Versions[0].Schema.Raw), `"terminationGracePeriodSeconds"`) {
		t.Errorf("the schema of %s has no pod", schema.Name)
	}
	if schema.Spec.Scope != "Namespaced" || schema.Spec.Names.ShortNames[0] != "sbt" {
		t.Errorf("%+v", schema.Spec.Names)
	}
}

// What the operator says is compared at each reconciliation of the kind. At an unexported field that panicked, and no
// SandboxTemplate was looked at again after a change.
func TestWhatTheOperatorSaysCanBeCompared(t *testing.T) {
	of := func(class string) any {
		return settings{
			Infrastructure: &sandbarv1alpha1.InfrastructureProviderSpec{Isolation: sandbarv1alpha1.Isolation{RuntimeClassName: class}},
			Offers:         podbase.Offers{"node": {Usable: true}},
		}
	}
	if !equality.Semantic.DeepEqual(of("a"), of("a")) || equality.Semantic.DeepEqual(of("a"), of("b")) {
		t.Error("a change is not told from none")
	}
}
