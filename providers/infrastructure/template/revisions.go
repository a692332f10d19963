// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// composition is what kro is to compose instances of: the graph that the Template asks for, and
// those that instances still have.
type composition struct {
	target revision.Graph
	former []revision.Graph
}

// graphs are all of them, the target first.
func (c composition) graphs() []revision.Graph {
	return append([]revision.Graph{c.target}, c.former...)
}

// tooManyError is the error for a graph that cannot be added to those that instances have.
type tooManyError struct{ count int }

func (e *tooManyError) Error() string {
	return fmt.Sprintf("instances have %d former revisions of this graph already; wait until the rollout is complete, or apply one of them again", e.count)
}

// compositionOf joins the Template's graph with the former ones that instances have. A former graph
// is left out once no instance has it.
func (r *reconciler) compositionOf(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, stored *krov1alpha1.ResourceGraphDefinition) (composition, error) {
	target, err := revision.NewGraph(p.graph, p.dataPlane)
	if err != nil {
		return composition{}, err
	}
	c := composition{target: target}
	if stored.UID == "" {
		return c, nil
	}
	live, err := revision.Stored(stored)
	if err != nil {
		return composition{}, err
	}
	for _, g := range live {
		if g.Hash == target.Hash {
			continue
		}
		used, err := r.hasInstances(ctx, tmpl, g, target)
		if err != nil {
			return composition{}, err
		}
		if used {
			c.former = append(c.former, g)
		}
	}
	if len(c.former) >= revision.MaxGraphs {
		return composition{}, &tooManyError{len(c.former)}
	}
	return c, nil
}

// hasInstances asks the runtime cluster itself whether an instance has the graph: what kro does not
// get any more of a graph, it deletes in the instances that have it.
func (r *reconciler) hasInstances(ctx context.Context, tmpl *sandbarv1alpha1.Template, g, target revision.Graph) (bool, error) {
	selector := placement.LabelGraph + "=" + g.Hash
	if g.Hash == "" { // it composes whatever no other does
		selector = placement.LabelGraph + "!=" + target.Hash
	}
	count, err := r.countOnRuntime(ctx, tmpl, placement.LabelInstanceUID+","+selector)
	if err != nil {
		return false, fmt.Errorf("looking for instances with a former graph: %w", err)
	}
	return count > 0, nil
}

// desired are the ways to write the graph, the preferred one first: with the types of status fields
// that kro infers, and without, for fields whose types differ between revisions.
func (c composition) desired(names placement.Names, template string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, loose := range []bool{false, true} {
		spec, err := revision.Merge(c.target, c.former, loose)
		if err != nil {
			return nil, err
		}
		rgd, err := desiredGraph(names, template, relocated(names, spec))
		if err != nil {
			return nil, err
		}
		record, err := revision.Encode(c.graphs())
		if err != nil {
			return nil, err
		}
		annotations := rgd.GetAnnotations()
		annotations[revision.Annotation] = record
		// kro would refuse a status field that goes with the last instance that has it, and a field
		// of the spec of which package template has made sure that no tenant's object needs it.
		annotations[krov1alpha1.AllowBreakingChangesAnnotation] = "true"
		rgd.SetAnnotations(annotations)
		out = append(out, rgd)
		if len(c.former) == 0 {
			break
		}
	}
	return out, nil
}

// broken says which verbs the contract would take from instances that have a former graph, because
// it looks for them where that graph has nothing; empty if none. A verb that is new may be missing.
func (c composition) broken() string {
	var problems []string
	for _, g := range c.former {
		if g.Hash == "" {
			continue // its contract is not known
		}
		schema, _ := g.Spec["schema"].(map[string]any)
		status, _ := schema["status"].(map[string]any)
		for _, verb := range contract.Verbs(&c.target.DataPlane) {
			is, was := refOf(&c.target.DataPlane, verb), refOf(&g.DataPlane, verb)
			if was == "" || is == "" || is == was {
				continue
			}
			if _, found, _ := unstructured.NestedFieldNoCopy(status, strings.Split(is, ".")[1:]...); !found {
				problems = append(problems, fmt.Sprintf("the verb %s would lead to %s, which the graph that instances have now does not have", verb, is))
			}
		}
	}
	slices.Sort(problems)
	return strings.Join(slices.Compact(problems), "; ")
}

// refOf is the path in the status that a verb leads to; empty if it has none.
func refOf(dp *sandbarv1alpha1.DataPlane, verb string) string {
	component := ""
	if rest, ok := strings.CutPrefix(verb, "components/"); ok {
		component, verb, _ = strings.Cut(rest, "/")
	}
	e, _ := contract.Find(dp, component, verb)
	return e.ServiceRef + e.PodRef
}

// missingValues says what of the platform the graph reads that there is not; empty if nothing. It
// would stand still in the instances, far from those who can help.
func missingValues(tmpl *sandbarv1alpha1.Template, p *plan, values map[string]string) (reason, problem string, err error) {
	g, err := revision.NewGraph(p.graph, p.dataPlane)
	if err != nil {
		return "", "", err
	}
	uses, err := g.Platform()
	if err != nil {
		return reasonInvalid, err.Error(), nil //nolint:nilerr // it is the author's to mend
	}
	for _, key := range slices.Sorted(maps.Keys(uses.Required)) {
		image, isImage := strings.CutSuffix(key, "Image")
		value, known := values[key]
		switch {
		case isImage && value == "":
			return reasonImageMissing, fmt.Sprintf("%s the provider has no image %q; it has: %s. "+
				"Add it to spec.images of the InfrastructureProvider, or name another", whereNamed(tmpl, image), image, imagesIn(values)), nil
		case !known:
			return reasonInvalid, fmt.Sprintf("spec.graph reads platform.data.%s, which the platform does not have; it has: %s",
				key, strings.Join(slices.Sorted(maps.Keys(values)), ", ")), nil
		}
	}
	return "", "", nil
}

// whereNamed is where the author of a Template has named an image.
func whereNamed(tmpl *sandbarv1alpha1.Template, image string) string {
	if development := tmpl.Spec.Development; development != nil {
		for _, name := range slices.Sorted(maps.Keys(development.Components)) {
			if development.Components[name].Image == image {
				return "spec.development.components." + name + ".image:"
			}
		}
	}
	return "spec.graph reads platform.data." + image + "Image, and"
}

func imagesIn(values map[string]string) string {
	var images []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if image, isImage := strings.CutSuffix(key, "Image"); isImage && values[key] != "" {
			images = append(images, image)
		}
	}
	return strings.Join(images, ", ")
}

// compose makes what kro is to get of the Template: the graph in the ways to write it. reason and
// problem say why that cannot be, if the operator can mend it.
func (r *reconciler) compose(ctx context.Context, tmpl *sandbarv1alpha1.Template, p *plan, stored *krov1alpha1.ResourceGraphDefinition) (
	ways []*unstructured.Unstructured, reason, problem string, err error,
) {
	c, err := r.compositionOf(ctx, tmpl, p, stored)
	if err == nil {
		if broken := c.broken(); broken != "" {
			return nil, reasonIncompatible, broken + ". Keep both in the graph's status until the rollout is complete, and change the verb then", nil
		}
		ways, err = c.desired(r.names, tmpl.Name)
	}
	var many *tooManyError
	switch {
	case errors.As(err, &many):
		return nil, reasonTooMany, err.Error(), nil
	case errors.Is(err, revision.ErrShape), errors.Is(err, revision.ErrSize):
		return nil, reasonIncompatible, err.Error(), nil
	}
	return ways, "", "", err
}
