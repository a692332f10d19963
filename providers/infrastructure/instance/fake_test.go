// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
)

// world is a tenant's object, a runtime cluster and the reconciler between them.
type world struct {
	t         *testing.T
	inKCP     *unstructured.Unstructured
	unseen    bool   // the watch has not shown the object
	path      string // of the workspace, as kcp tells it now
	reads     int    // of the object
	meanwhile func() // happens once, after the next read
	liveErr   error
	events    []*corev1.Event
	patchErr  error // of writes in kcp
	// refuse is why kcp does not take a write; nil: it takes all.
	refuse     func(patch map[string]any) error
	patches    []string // subresource or "main", in order; "removed" for a deletion
	runtime    client.Client
	writes     []string // verb and kind, in order
	failWrites func(verb string, obj runtime.Object) error
	// afterWrites are the answers to writes that were done.
	afterWrites func(verb string, obj runtime.Object) error
	settings    scope.Settings
	// stale is a cache of Namespaces that is behind; nil: it is not.
	stale    client.Reader
	capacity *capacity
	// deliveries are those of the process, secrets the tenant's own by their names, and deliverErr why pods do not take
	// variables; delivered are those that they took.
	deliveries *deliveries
	secrets    map[string]*corev1.Secret
	deliverErr error
	delivered  []map[string][]byte
	patched    *patchedBases
	members    *members.Members
	// membersRead is what those read, and ahead by how much their clock is; offered is whether there is a kind for them.
	membersRead *switchedClient
	ahead       time.Duration
	offered     bool
	// claims are the SandboxClaims of which somebody was told.
	claims []export.Key
	// liveRuntime is what the API server of the runtime cluster answers; nil: what its cache holds.
	liveRuntime client.Reader
	now         func() time.Time
	words       *lru.Cache[types.UID, spoken]
	// log is the end of every container's log, readLogs how often one was read.
	log      string
	readLogs int
	reading  sync.Mutex
	// logErrs are why the logs of containers cannot be read, by their names.
	logErrs map[string]error
	clock   inuse.Clock
	// turn says whether an instance that asks takes the present revision; asked and observed are
	// what the rollout was asked and told.
	turn func(rollout.Request) bool
	// templates are the tenant's SandboxTemplates, by name.
	templates map[string]*sandbarv1alpha1.SandboxTemplate
	// parts are those of compound instances; nil: nobody follows them. partsTold is how often somebody was told of a change of
	// the object, which may be a part.
	parts compound.Parts
	// routes are the parts of a built-in kind; nil: nobody follows them.
	routes      compound.Parts
	corrections *corrections
	partsTold   int
	asked       []rollout.Request
	observed    []rollout.Observation
}

func (w *world) podLogs(_ context.Context, _ string, from outcome.Speaker, _ logEnd) ([]byte, error) {
	w.reading.Lock() // a suspension reads all at once
	defer w.reading.Unlock()
	w.readLogs++
	return []byte(w.log), w.logErrs[from.Container]
}

// Deliver implements deliverer.
func (w *world) Deliver(_ context.Context, _ *corev1.Pod, control *corev1.Secret, values map[string][]byte) error {
	w.reading.Lock()
	defer w.reading.Unlock()
	if len(control.Data[placement.ControlTokenKey]) == 0 {
		w.t.Error("a pod is to prove nothing")
	}
	if w.deliverErr != nil {
		return w.deliverErr
	}
	w.delivered = append(w.delivered, values)
	return nil
}

// Secret reads a Secret of the tenant's as kcp answers it.
func (w *world) Secret(_ context.Context, req request, name string) (*corev1.Secret, error) {
	if req.Cluster != fixture.Cluster || req.Namespace != testRequest.Namespace {
		w.t.Errorf("a Secret of %v is read", req)
	}
	if secret := w.secrets[name]; secret != nil {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

// Turn implements rollouts.
func (w *world) Turn(_ string, r rollout.Request) bool {
	w.asked = append(w.asked, r)
	return w.turn == nil || w.turn(r)
}

// Observe implements rollouts.
func (w *world) Observe(_ string, o rollout.Observation) time.Duration {
	w.observed = append(w.observed, o)
	return 0
}

var testRequest = request{Cluster: fixture.Cluster, NamespacedName: types.NamespacedName{Namespace: "team-a", Name: "web"}}

// newWorld starts with one instance and the given objects on the runtime cluster.
func newWorld(t *testing.T, onRuntime ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(fixture.Thing.GVK, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(fixture.Thing.GVK.GroupVersion().WithKind("ThingList"), &unstructured.UnstructuredList{})
	w := &world{t: t, path: "root:team-a", inKCP: fixture.NewInstance(), settings: fixture.NewSettings(), now: time.Now, words: newWords(), capacity: newCapacity(), patched: newPatchedBases(), deliveries: newDeliveries(), corrections: newCorrections()}
	w.runtime = fake.NewClientBuilder().WithScheme(scheme).WithObjects(onRuntime...).
		WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		WithIndex(&corev1.Namespace{}, ownerIndex, indexOwner).WithIndex(&corev1.Namespace{}, members.Index, members.Indexed).
		WithInterceptorFuncs(w.interceptors()).Build()
	w.members = w.newMembers()
	return w
}

// switchedClient is another client when the test says so.
type switchedClient struct{ client.Client }

// newMembers are those of a process that has just started.
func (w *world) newMembers() *members.Members {
	w.membersRead = &switchedClient{w.runtime}
	return members.New(members.Options{
		Client: w.membersRead, Live: w.runtime, Provider: providerIs(fixture.Provider), Kinds: w, Changed: func(export.Key) {},
		Now: func() time.Time { return time.Now().Add(w.ahead) },
	})
}

// MemberKind implements members.Kinds.
func (w *world) MemberKind() (members.Kind, bool) {
	if !w.offered {
		return nil, false
	}
	return memberKind{w.reconciler()}, true
}

// interceptors record writes one at a time: the reconciler writes concurrently, which the fake
// client's server-side apply does not bear.
func (w *world) interceptors() interceptor.Funcs {
	var mu sync.Mutex
	write := func(verb string, obj runtime.Object, do func() error) error {
		mu.Lock()
		defer mu.Unlock()
		gvk, err := apiutil.GVKForObject(obj, w.runtime.Scheme())
		if err != nil {
			return err
		}
		w.writes = append(w.writes, verb+" "+gvk.Kind)
		if w.failWrites != nil {
			if err := w.failWrites(verb, obj); err != nil {
				return err
			}
		}
		err = do()
		if err == nil && w.afterWrites != nil {
			err = w.afterWrites(verb, obj)
		}
		return err
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if _, ok := obj.(*corev1.ConfigMap); !ok {
				return c.Update(ctx, obj, opts...) // the reconciler updates nothing else, and tests do so while it writes
			}
			return write("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return write("apply", obj.(runtime.Object), func() error { return c.Apply(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+subresource, obj, func() error {
				if err := c.SubResource(subresource).Patch(ctx, obj, patch, opts...); err != nil {
					return err
				}
				obj.SetGeneration(obj.GetGeneration() + 1) // as the API server does for another spec
				return c.Update(ctx, obj)
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
	}
}

func (w *world) reconciler() *reconciler {
	r := &reconciler{
		kind: fixture.Thing, settings: func() scope.Settings { return w.settings }, tenants: w,
		runtime: newRuntimeCluster(w.runtime, w.runtime, w.podLogs, w), deliveries: w.deliveries, capacity: w.capacity, members: w.members, events: events.NewRecorder(w.Record, eventsTotal),
		rollouts: w, wake: func(request) {},
		patched: w.patched, sandboxes: &Sandboxes{changed: func(claim export.Key) { w.claims = append(w.claims, claim) }},
		templates: w, words: w.words, now: func() time.Time { return w.now() },
		parts: func(string) (compound.Parts, bool) { return w.parts, w.parts != nil }, corrections: w.corrections,
		builtIn:     func(string) (compound.Parts, bool) { return w.routes, w.routes != nil },
		partChanged: func(request) { w.partsTold++ },
	}
	if w.liveRuntime != nil {
		r.runtime.live = w.liveRuntime
	}
	if w.stale != nil {
		r.runtime.client = interceptor.NewClient(w.runtime.(client.WithWatch), staleFuncs(w.stale))
		w.membersRead.Client = r.runtime.client
	}
	w.clock.Local = func() time.Time { return w.now() }
	r.replicas = serving.New(r.runtime.client, r.runtime.live, &w.clock, logr.Discard())
	return r
}

func (w *world) reconcile() error {
	_, err := w.reconciler().Reconcile(context.Background(), testRequest)
	return err
}

// settle reconciles until nothing is written any more.
func (w *world) settle() {
	w.t.Helper()
	for range 5 {
		w.patches, w.writes = nil, nil
		if err := w.reconcile(); err != nil {
			w.t.Fatal(err)
		}
		if len(w.patches) == 0 && len(w.writes) == 0 {
			return
		}
	}
	w.t.Fatalf("still writing at rest: %v %v", w.writes, w.patches)
}

// kroSays writes the kro instance's status as kro would.
func (w *world) kroSays(status map[string]any) {
	w.t.Helper()
	instance := w.kroInstance()
	instance.Object["status"] = status
	if err := w.runtime.Update(context.Background(), instance); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) kroInstance() *unstructured.Unstructured {
	w.t.Helper()
	instance := fixture.Thing.NewObject()
	key := types.NamespacedName{Namespace: w.id().Namespace(), Name: "web"}
	if err := w.runtime.Get(context.Background(), key, instance); err != nil {
		w.t.Fatal(err)
	}
	return instance
}

func (w *world) id() placement.ID { return placement.ID{Origin: fixture.Cluster, UID: fixture.UID} }

func (w *world) Known(request) bool { return !w.unseen }

func (w *world) Live(context.Context, request) (*unstructured.Unstructured, error) {
	w.reads++
	if w.liveErr != nil {
		return nil, w.liveErr
	}
	if w.inKCP == nil {
		return nil, apierrors.NewNotFound(fixture.Thing.GVR().GroupResource(), "web")
	}
	read := w.inKCP.DeepCopy()
	if w.meanwhile != nil {
		w.meanwhile()
		w.meanwhile = nil
	}
	return read, nil
}

func (w *world) Record(_ context.Context, _ request, event *corev1.Event) error {
	w.events = append(w.events, event)
	return nil
}

// Named implements SandboxTemplates.
func (w *world) Named(_ context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	if key.Cluster != fixture.Cluster || key.Namespace != testRequest.Namespace {
		w.t.Errorf("a SandboxTemplate of %v is read", key)
	}
	return w.templates[key.Name], nil
}

func (w *world) WorkspacePath(context.Context, string) string { return w.path }

// Patch does to inKCP what kcp does, including the check of the resource version.
func (w *world) Patch(_ context.Context, _ request, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	if w.inKCP == nil {
		return nil, apierrors.NewNotFound(fixture.Thing.GVR().GroupResource(), "web")
	}
	if w.patchErr != nil {
		return nil, w.patchErr
	}
	var patch map[string]any
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	version, found, _ := unstructured.NestedString(patch, "metadata", "resourceVersion")
	if found && version != w.inKCP.GetResourceVersion() {
		return nil, apierrors.NewConflict(fixture.Thing.GVR().GroupResource(), "web", nil)
	}
	if w.refuse != nil {
		if err := w.refuse(patch); err != nil {
			return nil, err
		}
	}
	w.patches = append(w.patches, append(subresources, "main")[0])
	mergePatch(w.inKCP.Object, patch)
	if patch["spec"] != nil {
		w.inKCP.SetGeneration(w.inKCP.GetGeneration() + 1)
	}
	number, _ := strconv.Atoi(w.inKCP.GetResourceVersion())
	w.inKCP.SetResourceVersion(strconv.Itoa(number + 1))
	if w.inKCP.GetDeletionTimestamp() != nil && len(w.inKCP.GetFinalizers()) == 0 {
		gone := w.inKCP
		w.inKCP = nil
		return gone, nil
	}
	return w.inKCP.DeepCopy(), nil
}

// remove does what kcp does, including the check of the preconditions.
func (w *world) Remove(_ context.Context, _ request, read *unstructured.Unstructured) error {
	switch {
	case w.inKCP == nil:
		return apierrors.NewNotFound(fixture.Thing.GVR().GroupResource(), "web")
	case w.inKCP.GetUID() != read.GetUID(), w.inKCP.GetResourceVersion() != read.GetResourceVersion():
		return apierrors.NewConflict(fixture.Thing.GVR().GroupResource(), "web", nil)
	}
	w.patches = append(w.patches, "removed")
	now := metav1.Now()
	w.inKCP.SetDeletionTimestamp(&now)
	return nil
}

// mergePatch applies a JSON merge patch (RFC 7386).
func mergePatch(into, patch map[string]any) {
	for key, value := range patch {
		child, isMap := value.(map[string]any)
		present, hasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && hasMap:
			mergePatch(present, child)
		case isMap:
			fresh := map[string]any{}
			mergePatch(fresh, child)
			into[key] = fresh
		default:
			into[key] = value
		}
	}
}
