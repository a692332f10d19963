// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// TimeoutError means that an object has not come to where it was waited for.
type TimeoutError struct {
	Name string
	// State is the last one, in words; empty if nothing was read.
	State string
	After time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	if e.State == "" {
		return fmt.Sprintf("%s is not there after %s", e.Name, e.After)
	}
	return fmt.Sprintf("%s is still %s after %s", e.Name, e.State, e.After)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// errReached ends the watch of Await.
var errReached = errors.New("reached")

// Await waits until an object is as it should be. The function reached gets each state of it: the object, or nil while
// it is not there; and reports whether the wait is over, or that it is in vain. The error is reached's own, a
// [TimeoutError], or why the object cannot be read.
func (c *Client) Await(ctx context.Context, k Kind, namespace, name string, timeout time.Duration, reached func(*unstructured.Unstructured) (bool, error)) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	opts := ListOptions{Namespace: namespace, Fields: fields.OneTermEqualSelector("metadata.name", name)}
	state := ""
	look := func(obj *unstructured.Unstructured) error {
		if obj != nil {
			state = StateOf(obj)
		}
		done, err := reached(obj)
		if done && err == nil {
			return errReached
		}
		return err
	}
	err := c.await(waiting, k, opts, look)
	switch {
	case errors.Is(err, errReached):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case waiting.Err() != nil:
		return &TimeoutError{Name: name, State: state, After: timeout}
	}
	return err
}

func (c *Client) await(ctx context.Context, k Kind, opts ListOptions, look func(*unstructured.Unstructured) error) error {
	list, err := c.List(ctx, k, opts)
	if err != nil {
		return err
	}
	var first *unstructured.Unstructured
	if len(list.Items) > 0 {
		first = list.Items[0].Unstructured
	}
	if err := look(first); err != nil {
		return err
	}
	return c.Watch(ctx, k, opts, list, func(e Event) error {
		switch e.Type {
		case Gap, Interrupted, Resumed:
			return nil
		case Deleted:
			return look(nil)
		default:
			return look(e.Unstructured)
		}
	})
}

// AwaitGone waits until the object with a UID is gone.
func (c *Client) AwaitGone(ctx context.Context, k Kind, namespace, name string, uid types.UID, timeout time.Duration) error {
	return c.Await(ctx, k, namespace, name, timeout, func(obj *unstructured.Unstructured) (bool, error) {
		return obj == nil || obj.GetUID() != uid, nil
	})
}
