// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// MaxProviderName is how long the name of a provider on a runtime cluster may be, in characters. It begins names of
// namespaces and of graphs, and the group of kinds, each with far more room.
const MaxProviderName = 20

// ErrProviderName is the error of NamesOf.
var ErrProviderName = errors.New("cannot be the name of a provider on a runtime cluster")

// Regular expressions, as the admission policies of the runtime cluster have them that all providers there share.
const (
	// SystemNamespaces matches the own namespace of every provider.
	SystemNamespaces = `^sandbar(-[a-z][a-z0-9]{0,19})?-system$`
	// Groups matches the API group of every provider's kinds (Names.Group).
	Groups = `^([a-z][a-z0-9]{0,19}[.])?sandbar[.]dev$`
)

var (
	// No hyphen: it separates the name from what follows, so that no two providers have one name in common.
	providerName    = regexp.MustCompile(`^[a-z][a-z0-9]{0,19}$`)
	systemNamespace = regexp.MustCompile(`^sandbar-([a-z][a-z0-9]{0,19})-system$`)
)

// Names are those of what a provider has on a runtime cluster for itself, so that several providers may share one:
// its namespaces, its graphs, the API group of the kinds that kro makes of them, and its roles and policies. They
// depend on one name, which sandbar-provider init is given. The zero value is the provider without a name, which
// is the only one of most runtime clusters.
//
// Placements need no name of a provider: theirs are hashes, and AnnotationProvider says which provider made one.
type Names struct{ name string }

// NamesOf returns the names of the provider with a name, which is a letter and up to 19 letters and digits, all
// lower-case; empty for the provider without a name. The error is ErrProviderName.
func NamesOf(name string) (Names, error) {
	if name != "" && !providerName.MatchString(name) {
		return Names{}, fmt.Errorf("%q %w: it must be a lower-case letter and up to %d lower-case letters and digits, for example blue",
			name, ErrProviderName, MaxProviderName-1)
	}
	return Names{name: name}, nil
}

// NamesIn returns the names of the provider whose own namespace is given, as the credential of an identity says it. Any
// other namespace is of the provider without a name.
func NamesIn(namespace string) Names {
	if found := systemNamespace.FindStringSubmatch(namespace); found != nil {
		return Names{name: found[1]}
	}
	return Names{}
}

// String is the name of the provider; empty for the one without.
func (n Names) String() string { return n.name }

// Prefix begins the names of what the provider has of the whole cluster: "sandbar" or "sandbar-NAME".
func (n Names) Prefix() string {
	if n.name == "" {
		return ManagedBy
	}
	return ManagedBy + "-" + n.name
}

// SystemNamespace is the provider's own namespace.
func (n Names) SystemNamespace() string {
	return n.Prefix() + strings.TrimPrefix(SystemNamespace, ManagedBy)
}

// NetworkCheckNamespace is where the controllers try whether network policies hold.
func (n Names) NetworkCheckNamespace() string {
	return n.Prefix() + strings.TrimPrefix(NetworkCheckNamespace, ManagedBy)
}

// Group is the API group of the kinds that kro makes of the provider's graphs. That of the tenants' objects is
// sandbar.dev for every provider.
func (n Names) Group() string {
	if n.name == "" {
		return sandbarv1alpha1.GroupName
	}
	return n.name + "." + sandbarv1alpha1.GroupName
}

// Graph is the name of the ResourceGraphDefinition of a Template.
func (n Names) Graph(template string) string {
	if n.name == "" {
		return template
	}
	return n.name + "-" + template
}

// TemplateNamed is the Template whose ResourceGraphDefinition would have a name; empty if no Template's would.
func (n Names) TemplateNamed(graph string) string {
	if n.name == "" {
		return graph
	}
	template, _ := strings.CutPrefix(graph, n.name+"-")
	if template == graph {
		return ""
	}
	return template
}

// GraphLabels are the labels of the ResourceGraphDefinition of a Template.
func (n Names) GraphLabels(template string) map[string]string {
	labels := map[string]string{LabelManagedBy: ManagedBy, LabelTemplate: template}
	if n.name != "" {
		labels[LabelProviderName] = n.name
	}
	return labels
}

// TemplateOf returns the Template of which an object, a graph above all, is this provider's; empty if it is none of the
// provider's.
func (n Names) TemplateOf(obj metav1.Object) string {
	labels := obj.GetLabels()
	if labels[LabelManagedBy] != ManagedBy || labels[LabelProviderName] != n.name {
		return ""
	}
	return labels[LabelTemplate]
}

// ProviderOf returns the logical cluster of the provider that made a placement; empty if it does not say so.
func ProviderOf(namespace metav1.Object) string {
	return namespace.GetAnnotations()[AnnotationProvider]
}
