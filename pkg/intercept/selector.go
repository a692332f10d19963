// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"encoding/json"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// ErrSelectorLost is the error of Restored for a Service whose original selector nobody knows: somebody has taken the annotation
// away, and the Service that has the original pods.
var ErrSelectorLost = errors.New("the original selector is not known: its annotation " + AnnotationOriginal + " is gone or damaged; write the selector that the Service is to have")

// standing is how a Service stands to the proxies.
type standing int

const (
	// own: the selector is the owner's.
	own standing = iota
	// intercepted: the selector is that of the proxies.
	intercepted
	// merged: somebody has merged the owner's selector into that of the proxies, as kubectl apply and Helm do. Both together
	// choose no pod.
	merged
)

func standingOf(s *corev1.Service) standing {
	switch _, has := s.Spec.Selector[LabelService]; {
	case !has:
		return own
	case len(s.Spec.Selector) == 1:
		return intercepted
	}
	return merged
}

// IsIntercepted reports whether requests to a Service go to proxies.
func IsIntercepted(s *corev1.Service) bool { return standingOf(s) == intercepted }

// HasTraces reports whether there is anything of an interception in a Service: proxies in its selector, or the annotation.
func HasTraces(s *corev1.Service) bool {
	_, annotated := s.Annotations[AnnotationOriginal]
	return annotated || standingOf(s) != own
}

// AsOwned is a Service as its owner has it: with the selector that the owner wrote last, and without the annotation. Of a selector that
// was merged into that of the proxies, keys that it lacks are the original one's. The selector is
// empty if nobody knows it. behind is the Service that has the original pods, nil if there is none; it helps out where
// the annotation is damaged.
func AsOwned(s, behind *corev1.Service) *corev1.Service {
	owned := s.DeepCopy()
	owned.Spec.Selector = ownSelector(s, behind)
	delete(owned.Annotations, AnnotationOriginal)
	if len(owned.Annotations) == 0 {
		owned.Annotations = nil
	}
	return owned
}

func ownSelector(s, behind *corev1.Service) map[string]string {
	switch standingOf(s) {
	case own:
		return s.Spec.Selector
	case merged:
		// What was merged may be a part of it: a patch of one key, and kubectl apply of a file that changes one. With that alone the
		// Service would choose pods of others too. What is there without ours wins over what was.
		selector := saidSelector(s)
		if selector == nil {
			selector = map[string]string{}
		}
		maps.Copy(selector, s.Spec.Selector)
		delete(selector, LabelService)
		return selector
	case intercepted:
	}
	if said := saidSelector(s); len(said) > 0 {
		return said
	}
	if behind != nil && IsOurs(behind.Labels) {
		return maps.Clone(behind.Spec.Selector)
	}
	return nil
}

// saidSelector is what the annotation says; nil if it cannot be read.
func saidSelector(s *corev1.Service) map[string]string {
	var said map[string]string
	if json.Unmarshal([]byte(s.Annotations[AnnotationOriginal]), &said) != nil {
		return nil
	}
	return said
}

// Switched is a Service whose requests go to the proxies. Its resourceVersion is that of s, so that a write fails where somebody has
// changed the Service in the meantime.
func Switched(s, behind *corev1.Service) *corev1.Service {
	next := AsOwned(s, behind)
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[AnnotationOriginal] = encode(next.Spec.Selector)
	next.Spec.Selector = Selector(s.Name)
	return next
}

// Restored is a Service that has its own pods again, as if nothing had been. A selector that somebody has written since is kept. The
// error is ErrSelectorLost.
func Restored(s, behind *corev1.Service) (*corev1.Service, error) {
	restored := AsOwned(s, behind)
	if len(restored.Spec.Selector) == 0 && standingOf(s) != own {
		return nil, ErrSelectorLost
	}
	return restored, nil
}

// Patch is the one write that makes of a Service as it was read one that Switched or Restored has made of it: a JSON merge patch of the
// selector and the annotation, which the API server refuses if somebody has changed the Service since. It is not the whole Service: one of a
// newer Kubernetes has fields that this program does not know, and would lose them.
func Patch(before, after *corev1.Service) []byte {
	selector := map[string]any{}
	for key := range before.Spec.Selector {
		selector[key] = nil
	}
	for key, value := range after.Spec.Selector {
		selector[key] = value
	}
	annotation := any(nil)
	if said, has := after.Annotations[AnnotationOriginal]; has {
		annotation = said
	}
	return []byte(encode(map[string]any{
		"metadata": map[string]any{"resourceVersion": before.ResourceVersion, "annotations": map[string]any{AnnotationOriginal: annotation}},
		"spec":     map[string]any{"selector": selector},
	}))
}
