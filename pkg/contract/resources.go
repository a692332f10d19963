// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// What a graph may make and refer to. kro makes it with rights of its own, which may be
// cluster-admin, so a graph that could make a Namespace or a role would lead to root on a node, and
// one that could refer to a Secret would read those of other programs. The admission policy
// sandbar-controllers refuses the same, by these expressions: a check of Templates alone would not
// stop a thief of the controllers' credential. They are RE2 without backslashes or quotes, so that
// CEL can quote them.
const (
	// APIVersions matches every apiVersion that is spelled in its one usual way. "/v1" is core/v1
	// to Kubernetes and to kro, and "${...}" is what kro makes of it later.
	APIVersions = `^([a-z0-9.-]+/)?v[0-9][a-z0-9]*$`
	// KubernetesKinds matches apiVersion/kind of the kinds of Kubernetes itself that a graph may make. All
	// lie in a namespace, and none gives rights or leads traffic to addresses that it names.
	KubernetesKinds = `^(v1/(ConfigMap|PersistentVolumeClaim|Pod|Secret|Service|ServiceAccount)` +
		`|(apps|autoscaling|batch|policy)/[^/]+/[A-Z][A-Za-z0-9]*` +
		`|networking[.]k8s[.]io/[^/]+/(Ingress|NetworkPolicy)` +
		`|gateway[.]networking[.]k8s[.]io/[^/]+/([A-Z]+Route|ReferenceGrant)` +
		`|resource[.]k8s[.]io/[^/]+/ResourceClaim(Template)?` +
		`|snapshot[.]storage[.]k8s[.]io/[^/]+/VolumeSnapshot)$`
	// OwnGroups matches an apiVersion whose group has a domain. If ReservedGroups does not match it,
	// its kinds are of an operator who has given kro rights for them.
	OwnGroups = `^[a-z0-9-]+[.]`
	// ReservedGroups matches an apiVersion of a group that belongs to Kubernetes or kro.
	ReservedGroups = `(^|[.])(k8s[.]io|kro[.]run)/`
)

var (
	apiVersions     = regexp.MustCompile(APIVersions)
	kubernetesKinds = regexp.MustCompile(KubernetesKinds)
	ownGroups       = regexp.MustCompile(OwnGroups)
	reservedGroups  = regexp.MustCompile(ReservedGroups)
)

// typed is what identifies a kind in a graph.
type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// checkResources checks what a graph makes and refers to.
func checkResources(graph []byte) []Problem {
	var spec struct {
		Resources []struct {
			Template    *typed `json:"template"`
			ExternalRef *typed `json:"externalRef"`
		} `json:"resources"`
	}
	if err := json.Unmarshal(graph, &spec); err != nil {
		return []Problem{{"spec.graph.resources", "are not those of a ResourceGraphDefinition: " + err.Error()}}
	}
	var problems []Problem
	for i, resource := range spec.Resources {
		field := fmt.Sprintf("spec.graph.resources[%d].", i)
		if ref := resource.ExternalRef; ref != nil && *ref != (typed{"v1", "ConfigMap"}) {
			problems = append(problems, Problem{field + "externalRef", fmt.Sprintf(
				"must be of apiVersion v1 and kind ConfigMap, not %q and %q: kro reads with rights of its own what a graph refers to", ref.APIVersion, ref.Kind)})
		}
		if made := resource.Template; made != nil {
			problems = append(problems, checkMade(field+"template.", *made)...)
		}
	}
	return problems
}

// checkMade checks the kind of one resource that a graph makes.
func checkMade(field string, made typed) []Problem {
	switch {
	case !apiVersions.MatchString(made.APIVersion):
		return []Problem{{field + "apiVersion", fmt.Sprintf("must be such as v1 or apps/v1, in plain text, not %q", made.APIVersion)}}
	case kubernetesKinds.MatchString(made.APIVersion + "/" + made.Kind):
		return nil
	case ownGroups.MatchString(made.APIVersion) && !reservedGroups.MatchString(made.APIVersion):
		return nil
	}
	return []Problem{{field + "kind", fmt.Sprintf("%s of %s is not for graphs: they make what runs in a placement, and no Namespaces, roles, "+
		"CustomResourceDefinitions, graphs or other kinds of the whole cluster", made.Kind, made.APIVersion)}}
}
