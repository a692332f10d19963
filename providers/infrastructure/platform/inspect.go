// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"

	krometadata "github.com/kubernetes-sigs/kro/pkg/metadata"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the runtime cluster must have at least.
const (
	MinKubernetes = "1.30.0"
	MinKro        = "0.9.0"
)

// Errors of Inspect; each says what to do.
var (
	ErrUnreachable      = errors.New("the runtime cluster does not answer")
	ErrKubernetesTooOld = errors.New("the runtime cluster's Kubernetes is too old")
	ErrKroMissing       = errors.New("kro is missing on the runtime cluster; install it with: " +
		"helm install kro oci://registry.k8s.io/kro/charts/kro --namespace kro-system --create-namespace --set config.allowCRDDeletion=true")
	ErrKroTooOld = errors.New("kro on the runtime cluster is too old; upgrade it to " + MinKro + " or newer")
)

// Runtime is what Inspect finds out about a runtime cluster.
type Runtime struct {
	// KubernetesVersion is the version that the API server tells, for example "v1.36.3".
	KubernetesVersion string
	// KroVersion is the newest version among the labels of the CRDs that kro made. Empty until
	// kro has made one: nothing else in the cluster's API tells kro's version for certain.
	KroVersion string
}

// Inspector looks at a runtime cluster, live and read-only.
type Inspector struct {
	reader    client.Reader
	discovery discovery.DiscoveryInterface
}

// NewInspector makes an Inspector. It sends nothing.
func NewInspector(cfg *rest.Config) (*Inspector, error) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = probeTimeout // discovery takes no context
	reader, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	return &Inspector{reader: reader, discovery: disco}, nil
}

// Inspect tells the versions of the cluster and whether Sandbar can run on it. The error is
// one of this package's, with the remedy.
func (i *Inspector) Inspect(ctx context.Context) (Runtime, error) {
	var found Runtime
	info, err := i.discovery.ServerVersion()
	if err != nil {
		return found, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	found.KubernetesVersion = info.GitVersion
	if older(info.GitVersion, MinKubernetes) {
		return found, fmt.Errorf("%w: it is %s and must be %s or newer", ErrKubernetesTooOld, info.GitVersion, MinKubernetes)
	}
	if err := i.checkKroAPI(ctx); err != nil {
		return found, err
	}
	if found.KroVersion, err = i.kroVersion(ctx); err != nil {
		return found, err
	}
	if older(found.KroVersion, MinKro) {
		return found, fmt.Errorf("%w: it is %s", ErrKroTooOld, found.KroVersion)
	}
	return found, nil
}

// HasGateway tells whether the cluster serves the kinds of the Gateway API that graphs use.
func (i *Inspector) HasGateway() (bool, error) {
	for groupVersion, kind := range map[string]string{
		"gateway.networking.k8s.io/v1":      "HTTPRoute",
		"gateway.networking.k8s.io/v1beta1": "ReferenceGrant",
	} {
		list, err := i.discovery.ServerResourcesForGroupVersion(groupVersion)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("looking for %s %s: %w", groupVersion, kind, err)
		}
		served := false
		for _, resource := range list.APIResources {
			served = served || resource.Kind == kind
		}
		if !served {
			return false, nil
		}
	}
	return true, nil
}

// checkKroAPI looks for what 0.9 brought to kro's API: namespaced or cluster scope in the
// schema, and graph revisions.
func (i *Inspector) checkKroAPI(ctx context.Context) error {
	crd, err := i.crd(ctx, "resourcegraphdefinitions.kro.run")
	if err != nil {
		return err
	}
	if crd == nil {
		return ErrKroMissing
	}
	if !hasScope(crd) {
		return fmt.Errorf("%w: its API v1alpha1 has no spec.schema.scope", ErrKroTooOld)
	}
	revisions, err := i.crd(ctx, "graphrevisions.internal.kro.run")
	if err != nil {
		return err
	}
	if revisions == nil {
		return fmt.Errorf("%w: it has no graph revisions", ErrKroTooOld)
	}
	return nil
}

func (i *Inspector) crd(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := i.reader.Get(ctx, types.NamespacedName{Name: name}, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: reading CustomResourceDefinition %s: %w", ErrUnreachable, name, err)
	}
	return crd, nil
}

func hasScope(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, v := range crd.Spec.Versions {
		if v.Name != "v1alpha1" || !v.Served || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		_, ok := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["schema"].Properties["scope"]
		return ok
	}
	return false
}

func (i *Inspector) kroVersion(ctx context.Context) (string, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := i.reader.List(ctx, &list, client.MatchingLabels{krometadata.OwnedLabel: "true"}); err != nil {
		return "", fmt.Errorf("%w: listing the CRDs that kro made: %w", ErrUnreachable, err)
	}
	newest := ""
	for i := range list.Items {
		v := list.Items[i].Labels[krometadata.KROVersionLabel]
		if v != "" && (newest == "" || older(newest, v)) {
			newest = v
		}
	}
	return newest, nil
}

// older compares versions; what is no version, such as that of a build from source, is not
// older than anything.
func older(have, want string) bool {
	h, err := version.ParseGeneric(have)
	if err != nil || (h.Major() == 0 && h.Minor() == 0) {
		return false
	}
	return h.LessThan(version.MustParseGeneric(want))
}
