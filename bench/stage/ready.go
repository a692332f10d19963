// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// oneTimeout bounds a single create to Ready; a run that meets it has failed.
const oneTimeout = 2 * time.Minute

// TimeToReady creates an object and watches it until its condition Ready is true; it deletes the object and
// waits until it is gone, so that one measurement does not disturb the next. Each of checks is given the
// object as it is when it is Ready.
func TimeToReady(ctx context.Context, objects dynamic.ResourceInterface, obj *unstructured.Unstructured, checks ...func(*unstructured.Unstructured) error) (time.Duration, error) {
	took, err := WayToReady(ctx, objects, obj, checks...)
	return took.Ready, err
}

// Way is how long an instance took from the client's request until something was so.
type Way struct {
	// Shown is until the client's own watch shows the object, and Ready until that says that it is Ready.
	Shown, Ready time.Duration
	// Began is when the request was sent.
	Began time.Time
}

// WayToReady is TimeToReady with what lies between.
func WayToReady(ctx context.Context, objects dynamic.ResourceInterface, obj *unstructured.Unstructured, checks ...func(*unstructured.Unstructured) error) (took Way, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneTimeout)
	defer cancel()
	name := obj.GetName()
	events, err := objects.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return took, fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	took.Began = time.Now()
	if _, err := objects.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
		return took, fmt.Errorf("creating %s: %w", name, err)
	}
	var is *unstructured.Unstructured
	if err := until(ctx, events, func(e watch.Event) bool {
		is, _ = e.Object.(*unstructured.Unstructured)
		if took.Shown == 0 {
			took.Shown = time.Since(took.Began)
		}
		return e.Type != watch.Deleted && ready(is)
	}); err != nil {
		return took, fmt.Errorf("waiting for %s: %w", name, err)
	}
	took.Ready = time.Since(took.Began)
	for _, check := range checks {
		if err := check(is); err != nil {
			return took, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return took, fmt.Errorf("deleting %s: %w", name, err)
	}
	if err := until(ctx, events, func(e watch.Event) bool { return e.Type == watch.Deleted }); err != nil {
		return took, fmt.Errorf("waiting for the end of %s: %w", name, err)
	}
	return took, nil
}

func until(ctx context.Context, events watch.Interface, done func(watch.Event) bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-events.ResultChan():
			if !ok {
				return errors.New("the watch ended")
			}
			if done(e) {
				return nil
			}
		}
	}
}

func ready(obj *unstructured.Unstructured) bool {
	if obj == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			return m["status"] == "True"
		}
	}
	return false
}
