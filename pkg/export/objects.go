// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/kcp-dev/sdk/apis/core"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Options are what Objects need besides their kind.
type Options struct {
	// Config has the provider's identity. Its host is replaced by the URLs of the endpoint slice.
	Config *rest.Config
	// FieldManager is the name under which objects are written.
	FieldManager string
	// Changed is called for each object that comes, changes in a way that matters, or goes. initial is
	// set for objects that were there when the watch began.
	Changed func(obj metav1.Object, initial bool)
	// Retried is called each time that a shard which cannot be followed is tried again.
	Retried func()
	Log     logr.Logger
}

// Objects are the objects of one kind in all workspaces, on all shards. They are followed from the first
// Follow until Close, and read and written in their own workspaces. Objects are safe for concurrent use,
// but for Follow and Close.
type Objects struct {
	kind    Kind
	options Options

	// paths remembers the workspace paths by cluster. They do not change.
	paths *lru.Cache[string, string]

	mu        sync.RWMutex
	followers map[string]*follower // by URL
}

// maxPaths bounds the remembered workspace paths; beyond it the least used are asked again.
const maxPaths = 8192

// NewObjects returns the objects of a kind, of which none is followed yet.
func NewObjects(kind Kind, options Options) *Objects {
	if options.Changed == nil {
		options.Changed = func(metav1.Object, bool) {}
	}
	if options.Retried == nil {
		options.Retried = func() {}
	}
	paths, _ := lru.New[string, string](maxPaths) // fails only for a size below one
	return &Objects{kind: kind, options: options, paths: paths, followers: map[string]*follower{}}
}

// Follow makes the followed shards those of the URLs. It waits for none of them to answer.
func (o *Objects) Follow(urls []string) error {
	for _, e := range o.all() {
		if !slices.Contains(urls, e.URL) {
			o.mu.Lock()
			delete(o.followers, e.URL)
			o.mu.Unlock()
			e.close()
		}
	}
	for _, url := range urls {
		o.mu.RLock()
		_, found := o.followers[url]
		o.mu.RUnlock()
		if found {
			continue
		}
		shard, err := NewShard(o.options.Config, url)
		if err != nil {
			return err
		}
		f := newFollower(shard, o.kind)
		f.log, f.retried = o.options.Log, o.options.Retried
		f.follow(OnEvents(func(obj metav1.Object, initial, _ bool) { o.options.Changed(obj, initial) }, tenantMatters))
		o.mu.Lock()
		o.followers[url] = f
		o.mu.Unlock()
	}
	return nil
}

// Close stops following, and waits until no goroutine of it is left.
func (o *Objects) Close() {
	_ = o.Follow(nil) // fails only for a URL
}

func (o *Objects) all() []*follower {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Collect(maps.Values(o.followers))
}

// Followed reports whether a shard is followed: before, no object can be read or written.
func (o *Objects) Followed() bool { return len(o.all()) > 0 }

// Known reports whether the watch has shown the object.
func (o *Objects) Known(key Key) bool {
	return slices.ContainsFunc(o.all(), func(e *follower) bool { return e.knows(key) })
}

// Shown returns the metadata of an object as the watch has last shown it, and reports whether it shows it. It must not be
// changed, and it may be stale (see Known): a deletion, and a new object under the name, are shown a moment later.
func (o *Objects) Shown(key Key) (metav1.Object, bool) {
	for _, e := range o.all() {
		if obj, found := e.shown(key); found {
			return obj, true
		}
	}
	return nil, false
}

// Live asks kcp: the shard whose watch shows the object, or all of them.
func (o *Objects) Live(ctx context.Context, key Key) (*unstructured.Unstructured, error) {
	return Ask(shardsOf(o.holding(key)), func(s *Shard) (*unstructured.Unstructured, error) { return s.Get(ctx, o.kind, key) })
}

// Patch writes a merge patch to the object or to a subresource and returns what it became.
//
// Validation is strict: the virtual workspace writes the whole object, as its schema has it. One that
// is behind the workspace's own would drop a tenant's new field without a word; so it refuses, and the
// write is tried again.
func (o *Objects) Patch(ctx context.Context, key Key, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	options := metav1.PatchOptions{FieldManager: o.options.FieldManager, FieldValidation: metav1.FieldValidationStrict}
	answer := ErrNoEndpoint
	for _, e := range o.holding(key) {
		client, err := e.Resource(key.Cluster, o.kind.GVR())
		if err != nil {
			return nil, err
		}
		obj, err := client.Namespace(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, data, options, subresources...)
		if err == nil || (!apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)) {
			return obj, err
		}
		answer = worse(answer, err)
	}
	return nil, answer
}

// Create creates an object in its workspace.
func (o *Objects) Create(ctx context.Context, key Key, obj *unstructured.Unstructured) error {
	options := metav1.CreateOptions{FieldManager: o.options.FieldManager, FieldValidation: metav1.FieldValidationStrict}
	answer := ErrNoEndpoint
	for _, e := range o.all() {
		client, err := e.Resource(key.Cluster, o.kind.GVR())
		if err != nil {
			return err
		}
		_, err = client.Namespace(key.Namespace).Create(ctx, obj, options)
		if err == nil || (!apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)) {
			return err
		}
		answer = worse(answer, err)
	}
	return answer
}

// List asks kcp for the objects of a namespace of a workspace that a label selector finds.
func (o *Objects) List(ctx context.Context, cluster, namespace, selector string) ([]unstructured.Unstructured, error) {
	answer := ErrNoEndpoint
	for _, e := range o.all() {
		client, err := e.Resource(cluster, o.kind.GVR())
		if err != nil {
			return nil, err
		}
		list, err := client.Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			return list.Items, nil
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return nil, err
		}
		answer = worse(answer, err)
	}
	return nil, answer
}

// Remove deletes the object under the UID and the resource version that were read: one that was
// made anew or changed since is another's, or renewed.
func (o *Objects) Remove(ctx context.Context, key Key, read *unstructured.Unstructured) error {
	uid, version := read.GetUID(), read.GetResourceVersion()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
	answer := ErrNoEndpoint
	for _, e := range o.holding(key) {
		client, err := e.Resource(key.Cluster, o.kind.GVR())
		if err != nil {
			return err
		}
		err = client.Namespace(key.Namespace).Delete(ctx, key.Name, options)
		if err == nil || (!apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)) {
			return err
		}
		answer = worse(answer, err)
	}
	return answer
}

// Record writes an event beside the object. Where the workspace has not accepted the permission
// claim on events, the answer is Forbidden or NotFound.
func (o *Objects) Record(ctx context.Context, key Key, event *corev1.Event) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(event)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	answer := ErrNoEndpoint
	for _, e := range o.holding(key) {
		client, err := e.Resource(key.Cluster, corev1.SchemeGroupVersion.WithResource("events"))
		if err != nil {
			return err
		}
		_, err = client.Namespace(event.Namespace).Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{FieldManager: o.options.FieldManager})
		if err == nil {
			return nil
		}
		answer = worse(answer, err)
	}
	return answer
}

// Secret reads a Secret beside an object, in the object's own workspace. Where the workspace has not accepted the permission
// claim on it, or the claim's selector leaves it out, the answer is Forbidden or NotFound, as for one that is not there.
func (o *Objects) Secret(ctx context.Context, key Key, name string) (*corev1.Secret, error) {
	obj, err := Ask(shardsOf(o.holding(key)), func(s *Shard) (*unstructured.Unstructured, error) {
		client, err := s.Resource(key.Cluster, corev1.SchemeGroupVersion.WithResource("secrets"))
		if err != nil {
			return nil, err
		}
		return client.Namespace(key.Namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, secret); err != nil {
		return nil, fmt.Errorf("decoding Secret %s: its form is another", name) // not the converter's words: they may quote a value
	}
	return secret, nil
}

// holding returns the shard whose watch shows the object, or all of them: an object that was read
// live may not have been shown yet.
func (o *Objects) holding(key Key) []*follower {
	all := o.all()
	for _, e := range all {
		if e.knows(key) {
			return []*follower{e}
		}
	}
	return all
}

// WorkspacePath reads the path of a workspace from its APIBinding. It is for people: where kcp does not
// tell it now it is empty, and asked for again the next time.
func (o *Objects) WorkspacePath(ctx context.Context, cluster string) string {
	if path, ok := o.paths.Get(cluster); ok {
		return path
	}
	for _, e := range o.all() {
		client, err := e.Resource(cluster, APIBindings)
		if err != nil {
			continue
		}
		list, err := client.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(list.Items) > 0 {
			if path := list.Items[0].GetAnnotations()[core.LogicalClusterPathAnnotationKey]; path != "" {
				o.paths.Add(cluster, path)
				return path
			}
		}
	}
	return ""
}

// Each calls f for the metadata of every object that the watches have shown.
func (o *Objects) Each(f func(metav1.Object)) {
	for _, e := range o.all() {
		e.each(f)
	}
}

// InWorkspace calls f for the metadata of every object that the watches have shown in one workspace.
func (o *Objects) InWorkspace(cluster string, f func(metav1.Object)) {
	for _, e := range o.all() {
		e.inWorkspace(cluster, f)
	}
}

func shardsOf(followers []*follower) []*Shard {
	shards := make([]*Shard, len(followers))
	for i, f := range followers {
		shards[i] = f.Shard
	}
	return shards
}
