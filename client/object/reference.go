// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/client"
)

// kindsAtOnce bounds the kinds that are asked for a name at the same time.
const kindsAtOnce = 8

// Reference names an object as people write it: NAME, or KIND/NAME.
type Reference struct {
	// Kind is a word for the kind, as [Client.Kind] takes it. It is empty if the name stands alone.
	Kind string
	// Name is the object's name.
	Name string
	// Resource is the kind's resource for a caller that knows it. It is then used without a request for it, and Kind is
	// ignored; if it is empty, Kind says which kind it is.
	Resource schema.GroupVersionResource
}

// String is the reference as people write it.
func (r Reference) String() string {
	if r.Kind == "" {
		return r.Name
	}
	return r.Kind + "/" + r.Name
}

// ReferenceError means that a text is not NAME or KIND/NAME. To repeat the call does not help.
type ReferenceError struct {
	// Text is what was given.
	Text string
	// Reason says what is wrong with it, and what to write instead.
	Reason string
}

// Error implements error.
func (e *ReferenceError) Error() string { return fmt.Sprintf("%q %s", e.Text, e.Reason) }

// ParseReference reads NAME or KIND/NAME. It fails with a [ReferenceError].
func ParseReference(text string) (Reference, error) {
	kind, name, slash := strings.Cut(text, "/")
	if !slash {
		kind, name = "", text
	}
	if slash && kind == "" || strings.Contains(name, "/") {
		return Reference{}, &ReferenceError{text, "is neither NAME nor KIND/NAME, such as web or sandbox/web; the namespace is not a part of it"}
	}
	if err := CheckName(name); err != nil {
		return Reference{}, err
	}
	return Reference{Kind: kind, Name: name}, nil
}

// CheckName fails with a [ReferenceError] for a name that no object can have.
func CheckName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return &ReferenceError{name, "cannot be the name of an instance: a name has lower-case letters, digits, '-' and '.', and begins and ends with a letter or digit"}
	}
	return nil
}

// AmbiguousNameError means that instances of several kinds have a name, and none of them is a SandboxRunner.
type AmbiguousNameError struct {
	Name string
	// Kinds are those that have an instance of the name, sorted by their resources.
	Kinds Kinds
}

// Error implements error.
func (e *AmbiguousNameError) Error() string {
	var written []string
	for _, k := range e.Kinds {
		written = append(written, Reference{Kind: k.Word(), Name: e.Name}.String())
	}
	last := len(written) - 1
	return fmt.Sprintf("several kinds have an instance %s: write %s or %s", e.Name, strings.Join(written[:last], ", "), written[last])
}

// runners is the kind that a name means that stands alone, if the workspace has a SandboxRunner of it.
var runners = Kind{Resource: client.SandboxRunners, Name: "SandboxRunner", Singular: "sandboxrunner", Namespaced: true}

// WithKindOf calls do with the kind of the instance that a reference means, and returns the error of do.
//
// A name that stands alone means the SandboxRunner of that name. If do fails because there is none, with an error that
// [apierrors.IsNotFound] knows, WithKindOf looks for an instance of that name among the other kinds: if exactly one kind has
// one, it calls do again with that kind. A SandboxRunner so costs no request but those of do. If several other kinds have
// one, the error is an [AmbiguousNameError]; if none has one, it is the first error of do. The errors for a word that is
// not a kind are those of [Client.Kind].
func (c *Client) WithKindOf(ctx context.Context, namespace string, r Reference, do func(Kind) error) error {
	if !r.Resource.Empty() {
		return do(Kind{Resource: r.Resource, Namespaced: true})
	}
	if r.Kind != "" {
		k, err := c.Kind(ctx, r.Kind)
		if err != nil {
			return err
		}
		return do(k)
	}
	failed := do(runners)
	if !apierrors.IsNotFound(failed) {
		return failed
	}
	found, err := c.having(ctx, namespace, r.Name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || len(found) == 0:
		return failed // what the name means first is the better answer
	case len(found) > 1:
		return &AmbiguousNameError{r.Name, found}
	}
	return do(found[0])
}

// having returns the kinds other than SandboxRunner that have an instance of a name, as far as the caller may read them.
func (c *Client) having(ctx context.Context, namespace, name string) (Kinds, error) {
	var found Kinds
	err := c.eachKind(ctx, "get", func(ctx context.Context, k Kind) (*List, error) {
		if k.Resource == runners.Resource {
			return &List{}, nil
		}
		return c.Get(ctx, k, namespace, name, true)
	}, func(k Kind, _ *List) { found = append(found, k) })
	slices.SortFunc(found, func(a, b Kind) int { return strings.Compare(a.Resource.String(), b.Resource.String()) })
	return found, err
}

// NamesAlone returns the names of the instances in a namespace that can stand alone in a [Reference], sorted: those of
// SandboxRunners, and those that exactly one other kind has. It reads at most so many objects of each kind, and leaves out
// kinds that the caller may not list. The errors are those of [Client.Kinds], and of requests that fail otherwise.
func (c *Client) NamesAlone(ctx context.Context, namespace string, limit int) ([]string, error) {
	kindsWith := map[string]int{}
	means := map[string]bool{}
	err := c.eachKind(ctx, "list", func(ctx context.Context, k Kind) (*List, error) {
		return c.List(ctx, k, ListOptions{Namespace: namespace, Limit: limit, Columns: true})
	}, func(k Kind, list *List) {
		for _, item := range list.Items {
			kindsWith[item.GetName()]++
			means[item.GetName()] = means[item.GetName()] || k.Resource == runners.Resource
		}
	})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(means, func(name string, runner bool) bool { return !runner && kindsWith[name] > 1 })
	return slices.Sorted(maps.Keys(means)), nil
}

// eachKind reads from all kinds that have a verb, several at a time, and hands what it read of Templates' kinds to use, one
// after the other. Kinds that the caller may not read are left out, and those that do not have the object.
func (c *Client) eachKind(ctx context.Context, verb string, read func(context.Context, Kind) (*List, error), use func(Kind, *List)) error {
	all, err := c.Kinds(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var group sync.WaitGroup
	places := make(chan struct{}, kindsAtOnce)
	for _, k := range all {
		if !k.Namespaced || !slices.Contains(k.Verbs, verb) {
			continue
		}
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			list, err := read(ctx, k)
			switch {
			case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
			case err != nil:
				cancel(err) // the first one counts
			case IsInstance(list.Columns):
				mu.Lock()
				defer mu.Unlock()
				use(k, list)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// Columns that each instance of a Template's kind has, in addition to those that the Template adds.
const (
	ColumnState   = "State"
	ColumnIdle    = "Idle"
	ColumnExpires = "Expires"
)

// IsInstance reports whether objects with these columns are instances of a Template's kind.
func IsInstance(columns []metav1.TableColumnDefinition) bool {
	for _, name := range []string{ColumnState, ColumnIdle, ColumnExpires} {
		if !slices.ContainsFunc(columns, func(c metav1.TableColumnDefinition) bool { return c.Name == name }) {
			return false
		}
	}
	return true
}
