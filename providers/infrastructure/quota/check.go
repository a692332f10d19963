// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Error says which field of the InfrastructureProvider the operator has to correct.
type Error struct {
	// Field is its path, for example "spec.quota.min[cpu]".
	Field string
	// Problem says what is wrong and what to do.
	Problem string
}

func (e *Error) Error() string { return "InfrastructureProvider " + e.Field + ": " + e.Problem }

// check returns the first contradiction. The API server would refuse each placement's LimitRange
// for most of these, in words that name nothing of what the operator wrote.
func (b *Bounds) check(spec *sandbarv1alpha1.Quota) error {
	for _, key := range sorted(spec.Hard) {
		if err := checkHard(key, spec.Hard[key]); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		field string
		of    corev1.ResourceList
	}{
		{"min", spec.Min},
		{"max", spec.Max},
		{"podMax", spec.PodMax},
		{"defaultRequest", spec.DefaultRequest},
		{"defaultLimit", spec.DefaultLimit},
	} {
		for _, name := range sorted(list.of) {
			if !slices.Contains(bounded, name) {
				return wrong(list.field, name, "only cpu, memory and ephemeral-storage are bounded here; remove it, or bound it by hard[requests.%s]", name)
			}
		}
	}
	for _, name := range bounded {
		err := ascending(
			level{key("min", name), b.Min[name]}, level{key("defaultRequest", name), b.Request[name]},
			level{key("defaultLimit", name), b.Limit[name]}, level{key("max", name), b.Max[name]}, level{key("podMax", name), b.PodMax[name]})
		if err != nil {
			return err
		}
	}
	return firstError(
		ascending(level{"volume.min", b.VolumeMin}, level{"volume.max", b.VolumeMax}),
		ascending(level{"emptyDir.default", b.EmptyDir.Default}, level{"emptyDir.max", b.EmptyDir.Max}),
		ascending(level{"emptyDir.memoryDefault", b.MemoryEmptyDir.Default}, level{"emptyDir.memoryMax", b.MemoryEmptyDir.Max}),
	)
}

// checkHard refuses what a ResourceQuota cannot hold. Zero is fine there and means none of it,
// but for what every container has.
func checkHard(name corev1.ResourceName, value resource.Quantity) error {
	if problems := validation.IsQualifiedName(strings.TrimPrefix(string(name), requestsPrefix)); len(problems) > 0 {
		return wrong("hard", name, "is not the name of a resource: %s", strings.Join(problems, ", "))
	}
	if value.Sign() < 0 {
		return wrong("hard", name, "%s is negative; give a number from zero up", value.String())
	}
	if limited, ok := strings.CutPrefix(string(name), limitsPrefix); ok && value.IsZero() && slices.Contains(bounded, corev1.ResourceName(limited)) {
		return wrong("hard", name, "0 leaves no container a limit; give a number above it (for no pods at all, hard[pods] can be 0)")
	}
	return nil
}

// level is a value in an ascending order.
type level struct {
	field string
	value resource.Quantity
}

// ascending checks that the values are above zero, of a sane size and none above the next one.
// Later values come first: an earlier one may be what a later one has made of its default.
func ascending(levels ...level) error {
	for _, l := range slices.Backward(levels) {
		switch {
		case l.value.Sign() <= 0:
			return &Error{"spec.quota." + l.field, l.value.String() + " is not above zero, and zero means without a limit; give a number above it"}
		case l.value.CmpInt64(math.MaxInt64/1000) > 0:
			return &Error{"spec.quota." + l.field, l.value.String() + " is more than any node has; give a smaller number"}
		}
	}
	for i, l := range levels[1:] {
		if before := levels[i]; before.value.Cmp(l.value) > 0 {
			return &Error{"spec.quota." + l.field, fmt.Sprintf("%s is below %s, which is %s; raise it or lower that", l.value.String(), before.field, before.value.String())}
		}
	}
	return nil
}

func key(field string, name corev1.ResourceName) string { return fmt.Sprintf("%s[%s]", field, name) }

func wrong(field string, name corev1.ResourceName, format string, args ...any) error {
	return &Error{"spec.quota." + key(field, name), fmt.Sprintf(format, args...)}
}

func sorted(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
