// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/export/exporttest"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

func TestThePartsOfAKindAreThoseOfATemplateWithCopies(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := sandbarv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	exported := func(clones *sandbarv1alpha1.CloneFields) *sandbarv1alpha1.Template {
		template := &sandbarv1alpha1.Template{Status: sandbarv1alpha1.TemplateStatus{Kind: "Heap", Group: "sandbar.dev", Version: "v1alpha1", Resource: "heaps", SchemaName: "v1.heaps"}}
		template.Name, template.Spec.Clones = "heap", clones
		return template
	}
	waiting := exported(&sandbarv1alpha1.CloneFields{From: "components"})
	waiting.Status.SchemaName = ""
	for name, row := range map[string]struct {
		template *sandbarv1alpha1.Template
		offered  bool
	}{
		"it has copies":                  {exported(&sandbarv1alpha1.CloneFields{From: "components"}), true},
		"it is a Template of another":    {exported(nil), false},
		"it is not exported":             {waiting, false},
		"there is no Template like that": {&sandbarv1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, false},
	} {
		k := &Kinds{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(row.template).Build()}
		above := &sandbarv1alpha1.Template{}
		above.Spec.Compound = &sandbarv1alpha1.CompoundFields{From: "workloads", Template: "heap"}
		settings, err := k.settingsOf(t.Context(), above)
		if err != nil {
			t.Fatal(err)
		}
		if words := settings.Compound; words.Offered() != row.offered || row.offered && (words.Part != heap || words.To != "components") {
			t.Errorf("%s: %+v", name, words)
		}
		if without := fixture.NewSettings(); without.Equal(settings) || settings.Equal(without) {
			t.Errorf("%s: nobody is looked at when the parts change", name)
		}
	}
}

func TestTheTableOfLimitsHasTheNumbersOfCompoundInstances(t *testing.T) {
	interceptions := clone.WorkloadsSchema().Properties["routing"].Properties["interceptions"]
	most := validation.DNS1035LabelMaxLength - len(clone.ServiceName("", ""))
	limitstable.Check(t, "../../../docs/limits.md", "Sandboxes with workloads", true,
		limitstable.Limit{Name: "workloads of a Sandbox", Number: strconv.FormatInt(*clone.WorkloadsSchema().Properties["workloads"].MaxItems, 10)},
		limitstable.Limit{Name: "interceptions, and matches of each", Number: fmt.Sprintf("%d, %d", *interceptions.MaxItems, *interceptions.Items.Schema.Properties["matches"].MaxItems)},
		limitstable.Limit{Name: "endpoints in the status of a Sandbox", Number: strconv.FormatInt(*clone.WorkloadsStatusSchema().Properties["endpoints"].MaxItems, 10)},
		limitstable.Limit{Name: "the names of a Sandbox and of one of its workloads, together", Number: fmt.Sprintf("%d characters", most), Says: []string{fmt.Sprintf("%d is the most", most)}},
		limitstable.Limit{Name: "how often a group, or a route, is put right that somebody else changes, while its Sandbox says the same", Number: "every " + limitstable.Duration(correctAgain)},
		limitstable.Limit{
			Name: "time for the kinds SandboxGroup and SandboxRoute to be followed after a start of the provider, before Sandboxes that are as they were tell that one is not", Number: limitstable.Duration(followedIn),
		},
	)
}

func TestAKindThatDoesNotRunHasNoParts(t *testing.T) {
	kinds := NewKinds("", func(export.Key) {}, func(export.Key) {})
	if parts, followed := kinds.partsOf("heap"); followed || parts != nil {
		t.Errorf("%v, %v", parts, followed)
	}
	kinds.partChanged("heap", testRequest) // nobody is there to be told
}

// Those that waited for it would be looked at again when something else wakes them.
func TestWhenAKindBeginsToBeFollowedTheCompoundInstancesOfItAreLookedAt(t *testing.T) {
	k, shard, woken := NewKinds("", func(export.Key) {}, func(export.Key) {}), exporttest.NewShard(t, "one"), make(chan request, 10)
	r := &runner{kind: fixture.Thing}
	r.settings.Store(&scope.Settings{Compound: &scope.CompoundWords{Fields: sandbarv1alpha1.CompoundFields{Template: "heap"}, Route: export.Kind{GVK: schema.GroupVersionKind{Kind: "SandboxRoute"}}}})
	var err error
	r.Controller, err = export.NewController(fixture.Thing.Kind, export.ControllerOptions{Name: "woken", Concurrency: 1, Config: &rest.Config{}, Log: logr.Discard()},
		func(*export.Controller) reconcile.TypedReconciler[request] {
			return reconcile.TypedFunc[request](func(_ context.Context, req request) (reconcile.Result, error) {
				woken <- req
				return reconcile.Result{}, nil
			})
		})
	if err != nil {
		t.Fatal(err)
	}
	k.running[fixture.Thing.Template] = r
	r.Start(t.Context())
	defer r.Close()
	if err := r.Objects.Follow([]string{shard.URL}); err != nil {
		t.Fatal(err)
	}
	first := <-woken // the watch shows it
	k.partsFollowed("heap")
	select {
	case again := <-woken:
		if again != first {
			t.Errorf("%v is looked at, want %v", again, first)
		}
	case <-time.After(time.Minute):
		t.Error("nobody looks at it")
	}
	k.BuiltInPartChanged("SandboxSet")(first) // of which it has no part
	k.BuiltInPartChanged("SandboxRoute")(first)
	select {
	case again := <-woken:
		if again != first {
			t.Errorf("%v is looked at, want %v", again, first)
		}
	case <-time.After(time.Minute):
		t.Error("nobody looks at it when its route changes")
	}
}

// cacheOnly is a cluster of which nothing is asked but its cache.
type cacheOnly struct {
	cluster.Cluster
	cache cache.Cache
}

func (c cacheOnly) GetCache() cache.Cache { return c.cache }

// The end of a process waited for reconciles while it held the lock that they asked for.
func TestKindsEndWhileAReconcileAsksForThePartsOfAnother(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{sandbarv1alpha1.AddToScheme, clientgoscheme.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	k := NewKinds("", func(export.Key) {}, func(export.Key) {})
	k.client = fake.NewClientBuilder().WithScheme(scheme).Build()
	k.config.runtime, k.config.capacity, k.config.log = cacheOnly{cache: &informertest.FakeInformers{Scheme: scheme}}, newCapacity(), logr.Discard()
	r, began := &runner{kind: fixture.Thing, runtime: k.config.runtime, capacity: k.config.capacity, stopEvents: func() {}, log: logr.Discard()}, make(chan struct{})
	var err error
	r.Controller, err = export.NewController(fixture.Thing.Kind, export.ControllerOptions{Name: "ends", Concurrency: 1, Config: &rest.Config{}, Log: logr.Discard()},
		func(*export.Controller) reconcile.TypedReconciler[request] {
			return reconcile.TypedFunc[request](func(ctx context.Context, _ request) (reconcile.Result, error) {
				close(began)
				<-ctx.Done()
				k.partsOf("heap")
				return reconcile.Result{}, nil
			})
		})
	if err != nil {
		t.Fatal(err)
	}
	k.running[fixture.Thing.Template] = r
	r.Start(t.Context())
	r.Wake(testRequest, false)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Start(ctx) }()
	<-began
	<-k.started
	stop()
	select {
	case err := <-ended:
		if err != nil || len(k.running) > 0 {
			t.Errorf("%d kinds run: %v", len(k.running), err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it never ends: the reconcile waits for the lock, and the lock for the reconcile")
	}
}
