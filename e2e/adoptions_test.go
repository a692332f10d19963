// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/hack/adoptions"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// small are resources of which a node has as much as these tests need.
const small = `{requests: {cpu: 5m, memory: 16Mi}, limits: {cpu: 500m, memory: 64Mi}}`

// claimsOwn is the spec of a Sandbox of the SandboxTemplate own.
const claimsOwn = `{template: {templateRef: {kind: SandboxTemplate, name: own}}}`

// adoptionWatch records every version of the placements of a workspace, from now on until it ends. A watch that breaks,
// with the server or without, begins again with a list: what it has missed then are versions that were not the last.
type adoptionWatch struct {
	history    adoptions.History
	cluster    string
	namespaces typedcorev1.NamespaceInterface
	latest     atomic.Int64 // the newest resource version that it has seen

	mu sync.Mutex
	// adopted are the namespaces of placements by their owner and the time of their adoption, which the owner's status
	// tells, too.
	adopted map[types.UID]map[int64]string
	// warm are the members that are marked as ready to be taken, and fewest how many there were at least since
	// countFewest.
	warm   map[string]bool
	fewest int

	stop context.CancelFunc
	done sync.WaitGroup
}

func watchAdoptions(tn *tenant) *adoptionWatch {
	tn.t.Helper()
	ctx, stop := context.WithCancel(tn.t.Context())
	w := &adoptionWatch{
		cluster: tn.cluster, namespaces: kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Namespaces(),
		adopted: map[types.UID]map[int64]string{}, warm: map[string]bool{}, stop: stop,
	}
	tn.t.Cleanup(stop)
	w.done.Go(func() { _ = poll(ctx, 24*time.Hour, func() error { return w.follow(ctx) }) })
	eventually(tn.t, "the watch of the placements begins", func() error {
		if w.latest.Load() == 0 {
			return errors.New("it has not listed them")
		}
		return nil
	})
	return w
}

// end ends the watch.
func (w *adoptionWatch) end() {
	w.stop()
	w.done.Wait()
}

// follow lists the placements and watches them until that ends.
func (w *adoptionWatch) follow(ctx context.Context) error {
	mine := metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + w.cluster}
	list, err := w.namespaces.List(ctx, mine)
	if err != nil {
		return err
	}
	revision, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	var present []string
	for i := range list.Items {
		present = append(present, list.Items[i].Name)
		if err := w.saw(&list.Items[i], false); err != nil {
			return err
		}
	}
	w.history.Listed(revision, present)
	w.mu.Lock()
	maps.DeleteFunc(w.warm, func(name string, _ bool) bool { return !slices.Contains(present, name) })
	w.mu.Unlock()
	w.latest.Store(max(w.latest.Load(), revision))
	mine.ResourceVersion = list.ResourceVersion
	events, err := w.namespaces.Watch(ctx, mine)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if ns, ok := event.Object.(*corev1.Namespace); ok {
			if err := w.saw(ns, event.Type == watch.Deleted); err != nil {
				return err
			}
		}
	}
	return errors.New("the watch has ended")
}

func (w *adoptionWatch) saw(ns *corev1.Namespace, gone bool) error {
	revision, err := strconv.ParseInt(ns.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	w.latest.Store(max(w.latest.Load(), revision))
	v := adoptions.Version{Placement: ns.Name, Revision: revision, Leaving: ns.DeletionTimestamp != nil, Gone: gone}
	member, isMember := placement.MemberOf(ns)
	v.Leaving = v.Leaving || isMember && member.State == placement.MemberLeaving
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := placement.Of(ns); ok {
		v.Owner = string(p.Owner.UID)
		if p.Born() {
			if w.adopted[p.Owner.UID] == nil {
				w.adopted[p.Owner.UID] = map[int64]string{}
			}
			w.adopted[p.Owner.UID][p.Adopted.At.UnixMicro()] = ns.Name
		}
	}
	if isMember && member.State == placement.MemberWarm && !v.Leaving && !gone {
		w.warm[ns.Name] = true
	} else {
		delete(w.warm, ns.Name)
	}
	w.fewest = min(w.fewest, len(w.warm))
	w.history.Saw(v)
	return nil
}

// countFewest begins to count how many members are ready to be taken; the result is how many there were at least since.
func (w *adoptionWatch) countFewest() func() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fewest = len(w.warm)
	return func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.fewest
	}
}

// told is the placement that the status of a Sandbox tells of, by how it started.
func (w *adoptionWatch) told(uid types.UID, start *sandbarv1alpha1.InstanceStart) string {
	if start.Type == sandbarv1alpha1.StartCold {
		return placement.Owner{Cluster: w.cluster, UID: uid}.Cold().Namespace()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if placed := start.Times.Placed; placed != nil && w.adopted[uid][placed.UnixMicro()] != "" {
		return w.adopted[uid][placed.UnixMicro()]
	}
	return "a placement that nobody has seen"
}

// revision is a resource version of the runtime cluster from now.
func (w *adoptionWatch) revision(ctx context.Context) (revision int64, err error) {
	return revision, poll(ctx, patience(), func() error {
		list, err := w.namespaces.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		revision, err = strconv.ParseInt(list.ResourceVersion, 10, 64)
		return err
	})
}

// claimed is a Sandbox that somebody asked for.
type claimed struct {
	box          *instance
	uid          types.UID
	began, ended int64
	// start is how it started; nil if it was deleted at once.
	start *sandbarv1alpha1.InstanceStart
}

// claimer claims Sandboxes of one template, and gives the oldest back so that only so many are there. Each call to a server is
// made until it succeeds: servers come and go.
type claimer struct {
	tn    *tenant
	watch *adoptionWatch
	spec  map[string]any
	// atOnce is how many are claimed at the same time, kept how many others there are at most. Of each so many one is
	// deleted as soon as it is created; none if that is 0.
	atOnce, kept, hasty int

	mu     sync.Mutex
	begun  int
	all    []*claimed
	living []*claimed
}

func newClaimer(tn *tenant, watch *adoptionWatch, spec string) *claimer {
	tn.t.Helper()
	c := &claimer{tn: tn, watch: watch}
	c.asks(spec)
	return c
}

// asks sets the spec of the Sandboxes that are claimed from now on, in YAML.
func (c *claimer) asks(spec string) {
	c.tn.t.Helper()
	c.spec = nil
	if err := yaml.Unmarshal([]byte(spec), &c.spec); err != nil {
		c.tn.t.Fatal(err)
	}
}

// claim claims so many Sandboxes, and goes on until enough is true.
func (c *claimer) claim(n int, enough func() bool) {
	c.tn.t.Helper()
	var workers sync.WaitGroup
	for range c.atOnce {
		workers.Go(func() {
			for {
				c.mu.Lock()
				i := c.begun
				c.begun++
				c.mu.Unlock()
				if i >= n && enough() {
					return
				}
				if err := c.one(c.tn.t.Context(), i); err != nil {
					c.tn.t.Errorf("claim %d: %v", i, err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// one claims a Sandbox, and gives back what is more than may be kept.
func (c *claimer) one(ctx context.Context, i int) error {
	got := &claimed{box: &instance{tn: c.tn, gvr: sandboxes, name: fmt.Sprint("claim-", i)}, began: c.watch.latest.Load()}
	var err error
	if got.uid, err = c.create(ctx, got.box.name); err != nil {
		return err
	}
	if c.hasty > 0 && i%c.hasty == c.hasty-1 {
		if err := c.giveBack(ctx, got); err != nil {
			return err
		}
	} else if got.start, err = c.waitStarted(ctx, got.box.name); err != nil {
		return err
	}
	if got.ended, err = c.watch.revision(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	var oldest *claimed
	c.all = append(c.all, got)
	if got.start != nil {
		c.living = append(c.living, got)
	}
	if len(c.living) > c.kept {
		oldest, c.living = c.living[0], c.living[1:]
	}
	c.mu.Unlock()
	if oldest == nil {
		return nil
	}
	return c.giveBack(ctx, oldest)
}

// create creates a Sandbox; one of the name is that of a request whose answer was lost.
func (c *claimer) create(ctx context.Context, name string) (uid types.UID, err error) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sandbarv1alpha1.GroupVersion.String(), "kind": "Sandbox",
		"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": c.spec,
	}}
	objects := c.tn.dyn.Resource(sandboxes).Namespace("default")
	err = poll(ctx, patience(), func() error {
		made, err := objects.Create(ctx, obj.DeepCopy(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			made, err = objects.Get(ctx, name, metav1.GetOptions{})
		}
		if err == nil {
			uid = made.GetUID()
		}
		return err
	})
	created.Add(1)
	return uid, err
}

func (c *claimer) waitStarted(ctx context.Context, name string) (start *sandbarv1alpha1.InstanceStart, err error) {
	err = poll(ctx, patience(), func() error {
		obj, err := c.tn.dyn.Resource(sandboxes).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := conditionError(obj, "Ready", metav1.ConditionTrue); err != nil {
			return err
		}
		if start = startOf(obj); start == nil {
			return fmt.Errorf("it is Ready, and does not say how it started: %v", obj.Object["status"])
		}
		return nil
	})
	return start, err
}

func (c *claimer) giveBack(ctx context.Context, former *claimed) error {
	return poll(ctx, patience(), func() error {
		err := c.tn.dyn.Resource(sandboxes).Namespace("default").Delete(ctx, former.box.name, metav1.DeleteOptions{})
		if export.IsGone(err) { // a kcp that starts says of every path that it is not found
			return nil
		}
		return err
	})
}

// startOf is how an object says that it started; nil if it does not.
func startOf(obj *unstructured.Unstructured) *sandbarv1alpha1.InstanceStart {
	fields, found, _ := unstructured.NestedMap(obj.Object, "status", "start")
	start := &sandbarv1alpha1.InstanceStart{}
	if !found || runtime.DefaultUnstructuredConverter.FromUnstructured(fields, start) != nil {
		return nil
	}
	return start
}

// starts are how an instance has said that it started, in all of its statuses.
func (r *recorder) starts(uid types.UID) (starts []*sandbarv1alpha1.InstanceStart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, obj := range r.seen[uid] {
		if start := startOf(obj); start != nil {
			starts = append(starts, start)
		}
	}
	return starts
}

// wantOneOwnerEach ends the watch, and checks what was recorded: every member had at most one owner, and every Sandbox
// one placement.
func (c *claimer) wantOneOwnerEach(leaders adoptions.Leaders) {
	c.tn.t.Helper()
	c.watch.end()
	warm, statuses := 0, 0
	for _, got := range c.all {
		own := ""
		if got.start != nil {
			own = c.watch.told(got.uid, got.start)
			if got.start.Type == sandbarv1alpha1.StartWarm {
				warm++
			}
		}
		c.watch.history.Took(adoptions.Take{Sandbox: string(got.uid), Placement: own, Began: got.began, Ended: got.ended})
		for _, start := range recorded.starts(got.uid) {
			statuses++
			if told := c.watch.told(got.uid, start); told != own {
				c.watch.history.Took(adoptions.Take{Sandbox: string(got.uid), Placement: told, Began: got.began, Ended: c.watch.latest.Load()})
			}
		}
	}
	versions, placements, takes := c.watch.history.Counts()
	c.tn.t.Logf("%d Sandboxes, %d of them warm; %d versions of %d placements, %d takes, %d statuses", len(c.all), warm, versions, placements, takes, statuses)
	if warm == 0 || statuses < len(c.living) || placements < len(c.all)/2 || versions < 3*placements {
		c.tn.t.Error("so little shows nothing")
	}
	for _, line := range c.watch.history.Check(leaders) {
		c.tn.t.Error(line)
	}
}

// wantSettled waits until there are the Sandboxes that were kept, each with one placement, and so many members, and
// nothing else; and then, after all of them and the set are deleted, nothing.
func (c *claimer) wantSettled(set string, members int) {
	t := c.tn.t
	t.Helper()
	mine := map[string]string{placement.LabelCluster: c.tn.cluster}
	eventually(t, "nothing else is left", func() error {
		all, err := c.watch.namespaces.List(t.Context(), metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + c.tn.cluster})
		if err == nil && len(all.Items) != len(c.living)+members {
			err = fmt.Errorf("%d namespaces stand for %d Sandboxes and %d members", len(all.Items), len(c.living), members)
		}
		return err
	})
	for _, got := range c.living {
		if now := got.box.started(); now.Type != got.start.Type || !now.Times.Placed.Equal(got.start.Times.Placed) { // and it has one placement
			t.Errorf("%s says that it started as %+v, and said %+v", got.box.name, now, got.start)
		}
	}
	for _, got := range slices.Clone(c.living) {
		c.tn.deleteBox(got.box)
	}
	c.tn.deleteSets(set)
	eventually(t, "all of it is gone", func() error {
		if left := namespacesWith(t, mine); len(left) > 0 {
			return fmt.Errorf("%d namespaces are left", len(left))
		}
		return nil
	})
}
