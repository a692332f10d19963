// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// quietFor is how long nothing may be written, quietAfter how soon after the last status that is
	// expected to change.
	quietFor   = 10 * time.Second
	quietAfter = 5 * time.Second
	// ofEach is how many objects are in each kind of trouble.
	ofEach = 8
)

// TestControllersGoQuiet: an instance that is refused, crashes or waits for ever costs no more writes
// than one that is well, and a Template that kro refuses neither. Once one refused object made 145
// status writes in six seconds, and sixty of them delayed other tenants ten times.
func TestControllersGoQuiet(t *testing.T) {
	long(t, "it watches 36 broken instances do nothing")
	breaks(t)
	n := newNote(t)
	n.apply("${schema.spec.text}", "${schema.spec.txet}") // refused by kro
	n.wait("GraphAccepted", metav1.ConditionFalse, "txet")
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	box := func(kind string, i int, image, container string) *instance {
		return tn.box(fmt.Sprintf("%s-%d", kind, i), fmt.Sprintf(
			`{template: {podTemplate: {spec: {containers: [{name: main, image: %q, %s}]}}}}`, image, container))
	}
	var boxes []*instance
	for i := range ofEach {
		boxes = append(boxes,
			box("refused", i, toolchain, `command: [sleep, "1000"], resources: {requests: {cpu: "5"}, limits: {cpu: "5"}}`), // more than the quota
			box("insecure", i, toolchain, `command: [sleep, "1000"], securityContext: {privileged: true}`),
			box("pending", i, toolchain, `command: [sleep, "1000"], resources: {requests: {cpu: "3900m"}, limits: {cpu: "4"}}`),
			box("pulling", i, "localhost/sandbar/no-such-image:dev", `command: [sleep, "1000"]`),
		)
		if i < ofEach/2 { // these use the machine
			boxes = append(boxes, box("crashing", i, toolchain, `command: [sh, -c, "exit 3"]`))
		}
	}
	tn.waitServed(sandboxTemplates)
	for i := range ofEach {
		name := fmt.Sprintf("template-%d", i)
		tn.mustTemplate(name, `{templateRef: {kind: SandboxTemplate, name: nosuch}}`)
		tn.waitValid(name, metav1.ConditionFalse, "TemplateNotUsable")
	}
	for _, b := range boxes {
		kind, _, _ := strings.Cut(b.name, "-")
		want := map[string]string{
			"refused": "SpecRefused", "insecure": "", "pending": "NoNodeHasRoom", "pulling": "ImageNotPullable", "crashing": "CrashLoop",
		}[kind]
		b.waitComposedReason(want, map[string]string{"crashing": "again and again"}[kind])
	}
	<-time.After(quietAfter)
	before, said := versions(t, tn, n, boxes), statuses(t, boxes)
	<-time.After(quietFor)
	after, says := versions(t, tn, n, boxes), statuses(t, boxes)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			t.Errorf("%s was written within %v at rest: version %s became %s\n%s\n%s", name, quietFor, before[name], after[name], said[name], says[name])
		}
	}
}

// waitComposedReason waits until Composed has a reason, or any but that it is being made, and says a word.
func (i *instance) waitComposedReason(reason, word string) {
	i.tn.t.Helper()
	eventually(i.tn.t, i.name+" says "+reason, func() error {
		obj, err := i.get()
		if err != nil {
			return err
		}
		c := condition(obj, "Composed")
		if c == nil || c["status"] != "False" || reason == "" && c["reason"] == "Composing" || reason != "" && c["reason"] != reason || !strings.Contains(fmt.Sprint(c["message"]), word) {
			return fmt.Errorf("Composed is %v", c)
		}
		return nil
	})
}

// statuses are what the instances say.
func statuses(t *testing.T, boxes []*instance) map[string]string {
	t.Helper()
	says := map[string]string{}
	for _, b := range boxes {
		obj, err := b.get()
		if err != nil {
			t.Fatal(err)
		}
		says[b.name] = fmt.Sprint(obj.Object["status"])
	}
	return says
}

// versions are the resource versions of everything that Sandbar writes for the instances, and of the
// Template.
func versions(t *testing.T, tn *tenant, n *note, boxes []*instance) map[string]string {
	t.Helper()
	found := map[string]string{}
	note := func(what string, get func() (metav1.Object, error)) {
		obj, err := get()
		if err != nil {
			t.Fatalf("reading %s: %v", what, err)
		}
		found[what] = obj.GetResourceVersion()
	}
	note("Template "+n.name, func() (metav1.Object, error) {
		return n.dyn.Resource(templates).Get(t.Context(), n.name, metav1.GetOptions{})
	})
	for i := range ofEach {
		name := fmt.Sprintf("template-%d", i)
		note("SandboxTemplate "+name, func() (metav1.Object, error) {
			return tn.dyn.Resource(sandboxTemplates).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
		})
	}
	runtime := dynamic.NewForConfigOrDie(world.Stack.Runtime())
	lease := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	namespace := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	for _, b := range boxes {
		note(b.name, func() (metav1.Object, error) { return b.get() })
		note(b.name+"'s namespace", func() (metav1.Object, error) {
			return runtime.Resource(namespace).Get(context.Background(), b.id.Namespace(), metav1.GetOptions{})
		})
		note(b.name+"'s use", func() (metav1.Object, error) {
			return runtime.Resource(lease).Namespace(b.id.Namespace()).Get(context.Background(), placement.ActivityLease, metav1.GetOptions{})
		})
	}
	return found
}
