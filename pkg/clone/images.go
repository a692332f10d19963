// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"path"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Docker Hub, as image references have it when they name no registry.
const (
	hubRegistry = "docker.io"
	hubOfficial = hubRegistry + "/library"
)

// repositoryOf returns the canonical repository of an image: registry in lower case and path, without tag and digest.
// nginx is docker.io/library/nginx. The grammar has neither .. nor empty segments.
func repositoryOf(image string) (string, error) {
	// The attack: a node finds an image that it has by this form, which names an image's content and no repository, and
	// asks no registry whether the pod may have it. The grammar would take it for a tag of docker.io/library/sha256.
	if strings.HasPrefix(image, "sha256:") {
		return "", fmt.Errorf("%q names no repository; write REGISTRY/REPOSITORY@%s", image, image)
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("%q is not the reference of an image: %w", image, err)
	}
	return strings.ToLower(reference.Domain(named)) + "/" + reference.Path(named), nil
}

// admitsRepository reports whether a pattern of images.allow admits a canonical repository. A * matches within one
// segment of the path, so that a pattern says how deep it reaches. The registry has no patterns: *.example.com of a
// registry where everybody gets a name is not a decision about anybody.
func admitsRepository(pattern, repository string) bool {
	registry, rest, ok := strings.Cut(pattern, "/")
	switch {
	case !ok:
		registry, rest = hubOfficial, pattern
	case registry == "index."+hubRegistry:
		registry = hubRegistry
	case registry != "localhost" && !strings.ContainsAny(registry, ".:") && strings.ToLower(registry) == registry:
		registry, rest = hubRegistry, pattern
	}
	if registry == hubRegistry && !strings.Contains(rest, "/") {
		registry = hubOfficial
	}
	registry = strings.ToLower(registry)
	if strings.ContainsAny(registry, `*?[\`) || strings.ContainsAny(rest, `?[\`) {
		return false
	}
	matches, err := path.Match(rest, strings.TrimPrefix(repository, registry+"/"))
	return err == nil && matches && strings.HasPrefix(repository, registry+"/")
}

// checkImages refuses images that the Baseline does not admit: of all containers, those that a patch has added too.
func (r *rendering) checkImages(source *corev1.PodTemplateSpec) error {
	for _, list := range containerLists(&r.template.Spec) {
		for i := range list.containers {
			c := &list.containers[i]
			own := containerOf(&source.Spec, c.Name)
			if own != nil && own.Image == c.Image && c.Image != "" {
				continue
			}
			if err := r.checkImage(fmt.Sprintf("container %q: image", c.Name), c.Image, own, &source.Spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// AdmitImage refuses an image in the place of that of a container, by the rule for overrides. source is the workload's own
// template; field begins the message.
func AdmitImage(rules Rules, source *corev1.PodTemplateSpec, field, container, image string) error {
	own := containerOf(&source.Spec, container)
	if own != nil && own.Image == image {
		return nil
	}
	r := &rendering{Input: Input{Rules: rules}}
	return r.checkImage(field, image, own, &source.Spec)
}

// checkImage looks at one image that is not the workload's own for that container. own is the workload's container of
// that name, nil if there is none.
func (r *rendering) checkImage(at, image string, own *corev1.Container, source *corev1.PodSpec) error {
	if image == "" {
		return refuse(RenderFailed, "%s: is missing; give one", at)
	}
	repository, err := repositoryOf(image)
	if err != nil {
		return refuse(InvalidSpec, "%s: %v", at, err)
	}
	patterns := r.Rules.Images.Allow
	if len(patterns) > 0 {
		for _, pattern := range patterns {
			if admitsRepository(pattern, repository) {
				return nil
			}
		}
		return refuse(NotAllowed, "%s: %s is not admitted by Baseline %s, which admits %s; choose one of those, or %s", at, image, r.Rules.Baseline, strings.Join(patterns, ", "), r.operator("images.allow"))
	}
	repositories := ownRepositories(own, source)
	if repositories.Has(repository) {
		return nil
	}
	return refuse(NotAllowed, "%s: %s is not admitted by Baseline %s, which admits tags and digests of %s; choose one of those, or %s", at, image, r.Rules.Baseline, strings.Join(sets.List(repositories), ", "), r.operator("images.allow"))
}

// ownRepositories are those that a container may have by default: its own, or any of the workload's for one that a patch
// has added. A container keeps to its own because its security context is: an image that tenants can write is not for
// the one container that is privileged.
func ownRepositories(own *corev1.Container, source *corev1.PodSpec) sets.Set[string] {
	repositories := sets.New[string]()
	for _, list := range containerLists(source) {
		for i := range list.containers {
			if c := &list.containers[i]; own == nil || own.Name == c.Name {
				if repository, err := repositoryOf(c.Image); err == nil {
					repositories.Insert(repository)
				}
			}
		}
	}
	return repositories
}

// containerList is one of a pod's lists of containers.
type containerList struct {
	field      string
	containers []corev1.Container
}

func containerLists(spec *corev1.PodSpec) []containerList {
	return []containerList{{"spec.containers", spec.Containers}, {"spec.initContainers", spec.InitContainers}}
}
