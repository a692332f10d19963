// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/quota"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// AnnotationSettings is on the ConfigMap sandbar-platform and holds the spec of the
// InfrastructureProvider that was accepted last. All controllers go by it and not by the object itself: a change that would
// break instances of all tenants counts for nothing.
const AnnotationSettings = "sandbar.dev/settings"

// settings is the value of AnnotationSettings.
type settings struct {
	// Of is the UID of the InfrastructureProvider. What another said, one of before in the same
	// workspace or that of a provider which had the runtime cluster before, holds for nobody.
	Of   types.UID                                   `json:"of"`
	Spec *sandbarv1alpha1.InfrastructureProviderSpec `json:"spec"`
}

// refusal is a reason why a change of the InfrastructureProvider does not count.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

// Settings returns the spec of the InfrastructureProvider that was accepted last; what it says now
// if none ever was.
func Settings(ctx context.Context, runtime client.Reader, names placement.Names, provider *sandbarv1alpha1.InfrastructureProvider) (*sandbarv1alpha1.InfrastructureProviderSpec, error) {
	config, key := &corev1.ConfigMap{}, platformKey(names)
	err := runtime.Get(ctx, key, config)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	if accepted := acceptedIn(config, provider.UID); accepted != nil {
		return accepted, nil
	}
	return &provider.Spec, nil
}

// platformKey is where the ConfigMap of a provider's values is.
func platformKey(names placement.Names) types.NamespacedName {
	return types.NamespacedName{Namespace: names.SystemNamespace(), Name: placement.PlatformConfigMap}
}

// acceptedIn reads the spec of an InfrastructureProvider that was accepted; nil if there is none, or
// somebody has damaged it.
func acceptedIn(config *corev1.ConfigMap, provider types.UID) *sandbarv1alpha1.InfrastructureProviderSpec {
	said, ok := config.Annotations[AnnotationSettings]
	if !ok {
		return nil
	}
	var accepted settings
	if err := json.Unmarshal([]byte(said), &accepted); err != nil || accepted.Of != provider {
		return nil
	}
	return accepted.Spec
}

// check returns a refusal if the spec would break instances that run. What was wrong before the
// change does not hold it up: it may be what the change is to mend.
func (r *reconciler) check(ctx context.Context, spec, accepted *sandbarv1alpha1.InfrastructureProviderSpec) error {
	// Also of what was accepted: init may have lowered the level since.
	problem, err := r.misconfigured(ctx, spec)
	if err != nil {
		return err
	}
	if problem != "" {
		return &refusal{reasonMisconfigured, problem}
	}
	if accepted == nil {
		accepted = &sandbarv1alpha1.InfrastructureProviderSpec{}
	} else if equality.Semantic.DeepEqual(spec, accepted) {
		return nil
	}
	if err := checkImages(spec.Images, accepted.Images); err != nil {
		return err
	}
	if err := r.checkUses(ctx, ConfigMapData(spec), ConfigMapData(accepted)); err != nil {
		return err
	}
	if err := r.checkChoices(ctx, spec.Images, accepted.Images); err != nil {
		return err
	}
	if err := r.checkRuntimeClasses(ctx, spec, accepted); err != nil {
		return err
	}
	if r.opts.Try == nil {
		return nil
	}
	if err := r.opts.Try(ctx, spec); err != nil {
		if errors.Is(err, ErrRefused) {
			return &refusal{reasonSettingsRefused, err.Error()}
		}
		return err
	}
	return nil
}

// checkRuntimeClasses refuses a RuntimeClass that the runtime cluster does not have.
func (r *reconciler) checkRuntimeClasses(ctx context.Context, spec, accepted *sandbarv1alpha1.InfrastructureProviderSpec) error {
	check := func(field, class, former string) error {
		if class == "" || class == former {
			return nil
		}
		err := r.live.Get(ctx, types.NamespacedName{Name: class}, &nodev1.RuntimeClass{})
		if apierrors.IsNotFound(err) {
			return &refusal{reasonRuntimeClassMissing, fmt.Sprintf("%s: the runtime cluster has no RuntimeClass %q; create it there, or name another", field, class)}
		}
		if err != nil {
			return fmt.Errorf("looking for RuntimeClass %s: %w", class, err)
		}
		return nil
	}
	if err := check("spec.isolation.runtimeClassName", spec.Isolation.RuntimeClassName, accepted.Isolation.RuntimeClassName); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(spec.PlacementClasses)) {
		field := "spec.placementClasses." + name + ".runtimeClassName"
		if err := check(field, spec.PlacementClasses[name].RuntimeClassName, accepted.PlacementClasses[name].RuntimeClassName); err != nil {
			return err
		}
	}
	return nil
}

// misconfigured says why no instance could be placed with a spec; empty if instances can. It is
// said here, where the operator looks, and not only in each tenant's instance.
func (r *reconciler) misconfigured(ctx context.Context, spec *sandbarv1alpha1.InfrastructureProviderSpec) (string, error) {
	_, err := quota.Of(&spec.Quota)
	var wrong *quota.Error
	if errors.As(err, &wrong) {
		return wrong.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading spec.quota: %w", err)
	}
	return r.checkLevel(ctx, spec)
}

// checkImages refuses what no node can pull.
func checkImages(images, accepted map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(images)) {
		if images[key] == "" || images[key] == accepted[key] {
			continue // an empty one is missing, see checkUses
		}
		if _, err := reference.ParseNormalizedNamed(images[key]); err != nil {
			return &refusal{reasonImageInvalid, fmt.Sprintf("spec.images.%s: %q is no reference of an image (%v); "+
				"give one such as registry.example/%s:1.2", key, images[key], err, strings.ToLower(key))}
		}
	}
	return nil
}

// checkUses refuses a change that takes a value away that a Template's graph reads: kro could not
// compose any of its instances.
func (r *reconciler) checkUses(ctx context.Context, values, before map[string]string) error {
	var graphs krov1alpha1.ResourceGraphDefinitionList
	if err := r.runtime.List(ctx, &graphs); err != nil {
		return fmt.Errorf("listing the ResourceGraphDefinitions: %w", err)
	}
	for i := range graphs.Items {
		template := r.names.TemplateOf(&graphs.Items[i])
		if template == "" {
			continue
		}
		target, err := revision.Stored(&graphs.Items[i])
		if err != nil {
			return err
		}
		uses, err := target[0].Platform()
		if err != nil {
			return fmt.Errorf("reading the graph of Template %s: %w", template, err)
		}
		for _, key := range slices.Sorted(maps.Keys(uses.Required)) {
			if Lacks(values, key) && !Lacks(before, key) {
				return &refusal{reasonImageMissing, fmt.Sprintf("spec.images has no %q any more, and Template %s needs it (platform.data.%s); "+
					"put it back, or delete that Template first", strings.TrimSuffix(key, "Image"), template, key)}
			}
		}
	}
	return nil
}

// Lacks reports whether the platform has no value for a key that a graph needs. Only an image must
// not be empty.
func Lacks(values map[string]string, key string) bool {
	value, ok := values[key]
	return !ok || (value == "" && strings.HasSuffix(key, "Image"))
}
