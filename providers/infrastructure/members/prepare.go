// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/resize"
)

const (
	// ResizePatience is how long a node may take to give a member other resources, from the first request on. A node that
	// is full says so and goes on trying; another start is sooner.
	ResizePatience = 30 * time.Second
	// maxResizes is how many members are tried for one instance, so that none empties a set on a node that is full.
	maxResizes = 3
	// resizesForgotten is after which time an instance may try again.
	resizesForgotten = 5 * time.Minute
)

// ErrResizeTaken means that a member is being prepared for another instance.
var ErrResizeTaken = errors.New("the member is being prepared for another instance")

// ResizeError says why a member has not got the resources that it was asked to get.
type ResizeError struct {
	// Outcome is one word for metrics: Refused, Infeasible or Late.
	Outcome string
	// Message is why, in the runtime cluster's words. They name its nodes and quotas, and are not for tenants.
	Message string
}

func (e *ResizeError) Error() string { return e.Message }

// Outcomes of a resize.
const (
	// ResizeDone: the containers have the resources.
	ResizeDone = "Done"
	// ResizeRefused: the API server did not take it.
	ResizeRefused = "Refused"
	// ResizeInfeasible: the node never has the room.
	ResizeInfeasible = "Infeasible"
	// ResizeLate: the node did not give the resources within ResizePatience.
	ResizeLate = "Late"
)

// Preparation is how far a member is that is being given other resources.
type Preparation struct {
	resize.Progress

	// From and To are what its containers had and get.
	From, To resize.Wish
	// Left is how long it may still take.
	Left time.Duration
}

// MayResize reports whether a member may be prepared for an object: not if as many as may be were tried in vain.
func (m *Members) MayResize(s *scope.Scope) bool {
	return m.prepared.failures(keyOf(s), m.now()) < maxResizes
}

// Resize has the pod of a member get other resources before an object takes it, and keeps it for that object meanwhile. It
// changes nothing that is under way already. wake is called when it has come further. A crash in between leaves a
// member with other resources than its set says, until it is taken or replaced. The error is a *ResizeError if the
// member cannot get them, and ErrResizeTaken if it is another object's.
//
// A member is resized while nobody owns it, so that one which cannot be resized is removed like any member, and no object
// ever had it.
func (m *Members) Resize(ctx context.Context, s *scope.Scope, member *corev1.Namespace, wish resize.Wish, wake func()) (p Preparation, err error) {
	pod, err := m.onlyPod(ctx, member.Name)
	if err != nil {
		return p, err
	}
	to := resize.Wish{}
	for name := range resize.Of(pod) {
		if wanted, ok := wish[name]; ok {
			to[name] = wanted
		}
	}
	now := m.now()
	mine, _ := m.prepared.begin(keyOf(s), &preparation{namespace: member.Name, pod: pod.UID, from: resize.Of(pod), to: to, began: now, wakes: wake})
	if mine == nil {
		return p, ErrResizeTaken
	}
	p = Preparation{From: mine.from, To: to, Left: mine.began.Add(ResizePatience).Sub(now)}
	if mine.pod != pod.UID {
		return p, &ResizeError{Outcome: ResizeLate, Message: "its pod was replaced"}
	}
	if p.Left > 0 {
		if pod, err = m.askResize(ctx, pod, to); err != nil {
			return p, err
		}
	}
	var why string
	switch p.Progress, why = resize.ProgressOf(pod); {
	case p.Progress == resize.Infeasible:
		return p, &ResizeError{Outcome: ResizeInfeasible, Message: why}
	case p.Left <= 0:
		return p, &ResizeError{Outcome: ResizeLate, Message: why}
	}
	return p, nil
}

// onlyPod reads the pod of a member. The cache has no more of it than an instance's status needs.
func (m *Members) onlyPod(ctx context.Context, namespace string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := m.opts.Live.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("reading the pod of %s: %w", namespace, err)
	}
	if len(pods.Items) != 1 {
		return nil, &ResizeError{Outcome: ResizeRefused, Message: fmt.Sprintf("it has %d pods", len(pods.Items))}
	}
	return &pods.Items[0], nil
}

// askResize asks for other resources, if the pod's spec does not say them yet, and returns the pod as it then is.
func (m *Members) askResize(ctx context.Context, pod *corev1.Pod, wish resize.Wish) (*corev1.Pod, error) {
	data, err := resize.Patch(pod, wish)
	if err != nil || data == nil {
		return pod, err
	}
	asked := pod.DeepCopy()
	err = m.opts.Client.SubResource("resize").Patch(ctx, asked, client.RawPatch(types.StrategicMergePatchType, data), client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
		return asked, nil
	// Its quota, its LimitRange or its class forbid it, or the cluster cannot do it: none of them mends itself soon.
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return nil, &ResizeError{Outcome: ResizeRefused, Message: err.Error()}
	}
	return nil, fmt.Errorf("resizing pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// GiveUpResize ends the preparation of a member that cannot be resized, and counts it. It is removed if it may still
// change: nobody knows what the node makes of what it was asked for. keep gives it back what it had, for an object that takes it as it was.
func (m *Members) GiveUpResize(ctx context.Context, s *scope.Scope, member *corev1.Namespace, why *ResizeError, keep bool) error {
	object := keyOf(s)
	mine := m.prepared.of(object)
	if mine == nil || mine.namespace != member.Name { // it was never asked for
		m.prepared.failed(object, m.now())
		return nil
	}
	if keep {
		pod, err := m.onlyPod(ctx, member.Name)
		if err == nil {
			_, err = m.askResize(ctx, pod, mine.from)
		}
		var refused *ResizeError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
	} else if why.Outcome != ResizeRefused {
		is, ok := placement.MemberOf(member)
		if ok {
			if err := m.Remove(ctx, Member{Member: is, namespace: member}); err != nil {
				return err
			}
		}
	}
	m.prepared.drop(object)
	m.prepared.failed(object, m.now())
	return nil
}

// EndResize ends the preparation of a member for an object that has started without it. The member is its set's again.
func (m *Members) EndResize(object export.Key) { m.prepared.drop(object) }

// ForgetResizes drops what is noted of an object, which takes no member any more. A member that was being prepared for it
// is its set's again.
func (m *Members) ForgetResizes(object export.Key) { m.prepared.forget(object) }

// Looked is the kro instance of a member as it was last looked at, if it was ready then and is the same still; nil if not.
func (m *Members) Looked(namespace string) *unstructured.Unstructured { return m.lookedAt(namespace) }
