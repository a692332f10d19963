// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/util/jsonpath"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// sorter puts objects in an order.
type sorter func([]object.Item)

// parseSort returns the order of --sort-by; without it, the oldest object is the first.
func parseSort(expression string) (sorter, error) {
	if expression == "" {
		return func(items []object.Item) { slices.SortStableFunc(items, byCreation) }, nil
	}
	p, err := parsePath(expression)
	if err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("--sort-by: %w", err)}
	}
	return func(items []object.Item) {
		slices.SortStableFunc(items, byCreation)
		slices.SortStableFunc(items, func(a, b object.Item) int { return compareAt(p, a, b) })
	}, nil
}

func byCreation(a, b object.Item) int {
	return cmp.Or(
		a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()),
		cmp.Compare(a.GetName(), b.GetName()),
	)
}

// compareAt compares what two objects have at a path. Objects without a value come first.
func compareAt(p *jsonpath.JSONPath, a, b object.Item) int {
	left, missingLeft := valueAt(p, a.Object)
	right, missingRight := valueAt(p, b.Object)
	switch {
	case missingLeft != nil && missingRight != nil:
		return 0
	case missingLeft != nil:
		return -1
	case missingRight != nil:
		return 1
	}
	if l, ok := quantity(left); ok {
		if r, ok := quantity(right); ok {
			return l.Cmp(r)
		}
	}
	return cmp.Compare(fmt.Sprint(left), fmt.Sprint(right)) // times of RFC 3339 sort as text
}

// quantity is a number, or a text such as 512Mi.
func quantity(value any) (resource.Quantity, bool) {
	switch value.(type) {
	case int64, float64, string:
		q, err := resource.ParseQuantity(fmt.Sprint(value))
		return q, err == nil
	}
	return resource.Quantity{}, false
}
