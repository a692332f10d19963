// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// maxEvents bounds the events that are read of one object; the provider writes 25 at once and then one a minute, and
// servers keep them for an hour.
const maxEvents = 500

// Description is what is known of an object, for a person.
type Description struct {
	Object *unstructured.Unstructured
	// Columns are those that the server prints of the kind.
	Columns []metav1.TableColumnDefinition
	// Status is what objects of all kinds have in their status.
	Status sandbarv1alpha1.InstanceStatus
	// Creator is the program that created the object, and Updated the last change by a program; both are empty if
	// the server does not record them.
	Creator string
	Updated Change
	// User is the name of the user who created an object of a kind of Sandbar's; empty if that is not known.
	User string
	// Steps are those of the start, the first one being the creation; none for kinds that do not record them.
	Steps []Step
	// Events are those of the object, the oldest first.
	Events []corev1.Event
	// EventsErr is why the events could not be read: a tenant may have no right to.
	EventsErr error
}

// Describe reads an object and its events.
func (c *Client) Describe(ctx context.Context, k Kind, namespace, name string) (*Description, error) {
	list, err := c.Get(ctx, k, namespace, name, true)
	if err != nil {
		return nil, err
	}
	obj := list.Items[0].Unstructured
	d := &Description{Object: obj, Columns: list.Columns, Status: statusOf(obj), Creator: creatorOf(obj)}
	if obj.GroupVersionKind().Group == sandbarv1alpha1.GroupName {
		d.User = obj.GetAnnotations()[sandbarv1alpha1.AnnotationCreatedBy]
	}
	if last := lastEntry(obj, nil); last != nil {
		d.Updated = Change{Manager: last.Manager, Time: last.Time.Time}
	}
	d.Steps = stepsOf(&d.Status)
	if d.Events, d.EventsErr = c.events(ctx, obj); ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return d, nil
}

// creatorOf returns the field manager that wrote an object when it was created; the server notes the two times one after
// the other, in whole seconds. A manager that has written the object since has a later time: then nothing says which one
// it was.
// A controller may write its finalizer in the same second: the creator is the one whose entry has the spec, if any has.
func creatorOf(obj *unstructured.Unstructured) string {
	creator := ""
	for _, entry := range obj.GetManagedFields() {
		if entry.Subresource != "" || entry.Time == nil || entry.Time.Sub(obj.GetCreationTimestamp().Time).Abs() > time.Second {
			continue
		}
		if owns(entry, []string{"spec"}) {
			return entry.Manager
		}
		creator = cmp.Or(creator, entry.Manager)
	}
	return creator
}

// events returns the events about an object, in the order of their last times.
func (c *Client) events(ctx context.Context, obj *unstructured.Unstructured) ([]corev1.Event, error) {
	namespace := cmp.Or(obj.GetNamespace(), metav1.NamespaceDefault)
	list, err := c.objects.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(obj.GetUID())).String(), Limit: maxEvents,
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing events: %w", err)
	}
	var events []corev1.Event
	for i := range list.Items {
		var event corev1.Event
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &event); err != nil {
			return nil, fmt.Errorf("reading an event: %w", err)
		}
		events = append(events, event)
	}
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return EventTime(a).Compare(EventTime(b)) })
	return events, nil
}

// EventTime is when an event happened last: reporters write it in different fields.
func EventTime(e corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
