// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// labeled are the kinds that a new tenant has, each with a spec that starts as little as the kind allows.
var labeled = []struct{ kind, spec string }{
	{"SandboxRunner", "{projectRef: e2e, suspended: true}"},
	{"Sandbox", "{suspended: true, template: {podTemplate: {spec: {containers: [{name: main, image: " + toolchain + "}]}}}}"},
	{"Redis", "{suspended: true}"},
	{"WebApp", "{}"},
	{"SandboxTemplate", "{template: {spec: {containers: [{name: main, image: " + toolchain + "}]}}}"},
	{"SandboxSet", "{replicas: 0, templateRef: {name: by-cli}}"},
	{"SandboxClaim", "{templateRef: {name: not-there}}"},
}

// TestLabelsSelectObjectsOfEveryKind is the promise of labels: each kind, a Template's or Sandbar's own, takes them when an object
// is created from the command line or from Go, and both find by one label, by two, by a set, by the absence of one, and all.
func TestLabelsSelectObjectsOfEveryKind(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	objects := tn.objects()
	for _, c := range labeled {
		var kind object.Kind
		eventually(t, c.kind+" is served", func() (err error) {
			kind, err = objects.Kind(t.Context(), c.kind)
			return err
		})
		s.write("spec.yaml", "apiVersion: sandbar.dev/v1alpha1\nkind: "+c.kind+"\nspec: "+c.spec+"\n")
		s.must("create", c.kind, "by-cli", "-f", s.dir+"/spec.yaml", "--label", "env=prod", "--label", "tier=web")
		if _, err := objects.Create(t.Context(), kind, "default", objectOf(t, c.spec, "by-go", map[string]string{"env": "test", "tier": "web"}), object.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		created.Add(2)
		for selector, want := range map[string][]string{
			"env=prod": {"by-cli"}, "env=test": {"by-go"}, "env=prod,tier=web": {"by-cli"}, "env=prod,tier=api": nil,
			"env in (prod, test)": {"by-cli", "by-go"}, "env notin (prod)": {"by-go"}, "!tier": nil, "": {"by-cli", "by-go"},
		} {
			parsed, err := object.ParseSelector(selector)
			if err != nil {
				t.Fatal(err)
			}
			list, err := objects.List(t.Context(), kind, object.ListOptions{Namespace: "default", Labels: parsed})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.Items {
				got = append(got, item.GetName())
			}
			slices.Sort(got)
			printed := strings.Fields(strings.ReplaceAll(s.must("get", c.kind, "-o", "name", "-l", selector), kind.String()+"/", ""))
			slices.Sort(printed)
			if !slices.Equal(got, want) || !slices.Equal(printed, want) {
				t.Errorf("%s -l %q: Go has %v and the command line %v, want %v", c.kind, selector, got, printed, want)
			}
		}
	}
}

// TestOneOfTwoWritersOfAVersionWins: two writers that have read the same version are never both told that they have changed the
// object, whether they call the API, the Go package or the command line. The other one gets a conflict.
func TestOneOfTwoWritersOfAVersionWins(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	objects := tn.objects()
	templates := tn.dyn.Resource(sandboxTemplates).Namespace("default")
	tn.mustTemplate("shared", labeled[4].spec)
	kind, err := objects.Kind(t.Context(), "sandboxtemplate")
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range tn.writers(s, kind) {
		// The controllers write the status: a round in which they were first has two losers, and is repeated.
		eventually(t, name+": one of two writers wins", func() error {
			obj, err := templates.Get(t.Context(), "shared", metav1.GetOptions{})
			if err != nil {
				return err
			}
			version := obj.GetResourceVersion()
			type result struct {
				conflict bool
				err      error
			}
			results := make(chan result, 2)
			for _, writer := range []string{"first-" + randomHex(2), "second-" + randomHex(2)} {
				go func() {
					conflict, err := write(version, writer)
					results <- result{conflict, err}
				}()
			}
			winners := 0
			for range 2 {
				switch r := <-results; {
				case r.err == nil:
					winners++
				case !r.conflict:
					t.Errorf("%s: a loser gets %v, and no conflict", name, r.err)
				}
			}
			if winners > 1 {
				t.Errorf("%s: both writers of version %s have won", name, version)
			}
			after, err := templates.Get(t.Context(), "shared", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if after.GetResourceVersion() == version {
				t.Errorf("%s: after a change the version is still %s", name, version)
			}
			if winners == 0 {
				return fmt.Errorf("somebody else was first, %d writers lost", 2-winners)
			}
			return nil
		})
	}
}

// writers set the label writer of the SandboxTemplate shared if it has a version, each in its own way. They report whether the
// error is a conflict.
func (tn *tenant) writers(s *terminal, kind object.Kind) map[string]func(version, writer string) (conflict bool, err error) {
	templates, objects, ctx := tn.dyn.Resource(sandboxTemplates).Namespace("default"), tn.objects(), tn.t.Context()
	return map[string]func(version, writer string) (conflict bool, err error){
		"API": func(version, writer string) (bool, error) {
			obj, err := templates.Get(ctx, "shared", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			obj.SetResourceVersion(version)
			obj.SetLabels(map[string]string{"writer": writer})
			_, err = templates.Update(ctx, obj, metav1.UpdateOptions{})
			return apierrors.IsConflict(err), err
		},
		"Go": func(version, writer string) (bool, error) {
			var stale *object.ConflictError
			_, _, err := objects.Mark(ctx, kind, "default", "shared", object.Labels, object.Pairs{Set: map[string]string{"writer": writer}}, true, object.WriteOptions{Version: version})
			return errors.As(err, &stale) && stale.Version == version, err
		},
		"command line": func(version, writer string) (bool, error) {
			code, _, errs := s.run("label", "sandboxtemplate", "shared", "writer="+writer, "--overwrite", "--resource-version", version)
			if code == 0 {
				return false, nil
			}
			return code == 1 && strings.Contains(errs, "shared has changed since version "+version), errors.New(errs)
		},
	}
}

// TestLabelsAndSelectorsAreRefusedAsTheAPIRefusesThem: what the command line refuses before it sends anything is what the API
// refuses, and nothing else.
func TestLabelsAndSelectorsAreRefusedAsTheAPIRefusesThem(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	templates := tn.dyn.Resource(sandboxTemplates).Namespace("default")
	tn.mustTemplate("marked", labeled[4].spec)
	for _, label := range [][2]string{
		{"env", "prod"},
		{"env", ""},
		{"example.com/team", "a.b-c_d"},
		{"a b", "c"},
		{"env", strings.Repeat("x", 64)},
		{strings.Repeat("x", 64), "a"},
		{"-env", "c"},
		{"env", "a/b"},
		{"Example.com/a", "b"},
		{"env", "\x1b[2J"},
		{"a/b/c", "d"},
	} {
		obj := objectOf(t, labeled[4].spec, "tried", map[string]string{label[0]: label[1]})
		obj.SetGroupVersionKind(sandboxTemplates.GroupVersion().WithKind("SandboxTemplate"))
		_, err := templates.Create(t.Context(), obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%q: the API answers %v", label, err)
		}
		code, _, errs := s.run("label", "sandboxtemplate", "marked", label[0]+"="+label[1], "--overwrite", "--dry-run")
		if refused := code == 2; refused != apierrors.IsInvalid(err) || code != 0 && code != 2 || strings.Contains(errs, "\x1b") {
			t.Errorf("%q: exit code %d, %q; the API answers %v", label, code, errs, err)
		}
	}
	for _, selector := range []string{"env=prod", "env in (prod, test),!tier", "env in prod", "env=prod=test", "-env=a", "env=a b", "a/b/c", "env notin ()"} {
		_, err := templates.List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		code, _, errs := s.run("get", "sandboxtemplates", "-l", selector)
		if refused := code == 2; refused != apierrors.IsBadRequest(err) || code != 0 && code != 2 {
			t.Errorf("%q: exit code %d, %q; the API answers %v", selector, code, errs, err)
		}
	}
}

// TestLabelsReachThePlacementByTheOperatorsList: of a tenant's labels, the ones that the operator allows are on what the runtime
// cluster has of an object, and never one of the domains that steer Sandbar, kro or Kubernetes, although the operator lists them.
func TestLabelsReachThePlacementByTheOperatorsList(t *testing.T) {
	breaks(t) // it changes what the provider copies of every object
	admin := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(providers)
	allow := func(ctx context.Context, prefixes string) error {
		patch := `{"spec":{"instanceMetadata":{"labelPrefixes":` + prefixes + `}}}`
		_, err := admin.Patch(ctx, "default", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	t.Cleanup(func() {
		if err := allow(context.WithoutCancel(t.Context()), "null"); err != nil {
			t.Error(err)
		}
	})
	if err := allow(t.Context(), `["team.example.com/", "kro.run/", "sandbar.dev/", "app.kubernetes.io/"]`); err != nil {
		t.Fatal(err)
	}
	tn := newTenant(t, "alice")
	box := tn.create(runners, "SandboxRunner", "marked", map[string]any{"projectRef": "e2e", "suspended": true})
	forged := map[string]string{"kro.run/owned": "forged", placement.LabelInstanceUID: "forged", "app.kubernetes.io/managed-by": "forged", "env": "prod"}
	labels := maps.Clone(forged)
	labels["team.example.com/name"] = "shop"
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.tryPatch(string(patch)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the label that the operator allows is on the placement's object", func() error {
		obj, err := box.kro(t)
		if err != nil {
			return err
		}
		if got := obj.GetLabels(); got["team.example.com/name"] != "shop" {
			return fmt.Errorf("its labels are %v", got)
		}
		return nil
	})
	obj, err := box.kro(t)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range forged {
		if got := obj.GetLabels(); got[key] == value {
			t.Errorf("the tenant's label %s=%s is on the placement's object: %v", key, value, got)
		}
	}
	ns, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces().Get(t.Context(), box.id.Namespace(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range forged {
		if ns.Labels[key] == value {
			t.Errorf("the tenant's label %s=%s is on the namespace", key, value)
		}
	}
}

// objects is the Go package for objects, as the tenant.
func (tn *tenant) objects() *object.Client {
	tn.t.Helper()
	c, err := object.New(world.Stack.KCPUser(tn.user, tn.path))
	if err != nil {
		tn.t.Fatal(err)
	}
	return c
}

// objectOf is an object with labels of a spec in YAML.
func objectOf(t *testing.T, spec, name string, labels map[string]string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	obj.SetName(name)
	obj.SetLabels(labels)
	return obj
}
