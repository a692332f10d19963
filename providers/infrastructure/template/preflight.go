// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	"github.com/kubernetes-sigs/kro/pkg/features"
	krograph "github.com/kubernetes-sigs/kro/pkg/graph"
	krometadata "github.com/kubernetes-sigs/kro/pkg/metadata"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// vendoredKro is the series of kro whose checks are built into this program.
const vendoredKro = "v0.9."

// Limits of kro's forEach collections, as kro's own flags default them; a cluster's kro may
// have others and then says so itself.
const (
	maxCollectionSize       = 1000
	maxCollectionDimensions = 10
)

// preflight runs kro's own checks on a changed graph before kro gets it. A graph that kro
// refuses replaces the one it serves: kro goes on with that only until it restarts. So when the
// cluster's kro is of the series that we have the checks of, a graph that serves tenants is
// never replaced by one that kro would refuse.
type preflight struct {
	cfg *rest.Config
}

func newPreflight(cfg *rest.Config) (*preflight, error) {
	// A cluster's kro may have the function omit enabled or not; it is for kro to refuse it.
	if err := features.FeatureGate.Set(string(features.CELOmitFunction) + "=true"); err != nil {
		return nil, fmt.Errorf("preparing kro's checks: %w", err)
	}
	return &preflight{cfg: cfg}, nil
}

// check returns kro's message when kro would refuse the graph. An error means that it cannot be
// told now.
func (p *preflight) check(name string, graph map[string]any, served *apiextensionsv1.CustomResourceDefinition) (refused string, err error) {
	_, refused, err = p.compile(name, graph, served)
	return refused, err
}

// compile returns the CRD that kro would make of the graph; nil if the cluster's kro is of another
// series, or would refuse it.
func (p *preflight) compile(name string, graph map[string]any, served *apiextensionsv1.CustomResourceDefinition) (
	crd *apiextensionsv1.CustomResourceDefinition, refused string, err error,
) {
	if !strings.HasPrefix(served.Labels[krometadata.KROVersionLabel], vendoredKro) {
		return nil, "", nil
	}
	rgd := &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	raw, err := json.Marshal(graph)
	if err != nil {
		return nil, "", fmt.Errorf("writing the graph: %w", err)
	}
	if err := json.Unmarshal(raw, &rgd.Spec); err != nil {
		return nil, "", fmt.Errorf("parsing the graph: %w", err)
	}
	client, err := rest.HTTPClientFor(p.cfg)
	if err != nil {
		return nil, "", fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	// Made anew each time: a change of a Template is rare, and what it remembers of the
	// cluster's kinds would be old by the next one.
	builder, err := krograph.NewBuilder(p.cfg, client)
	if err != nil {
		return nil, "", fmt.Errorf("preparing kro's checks: %w", err)
	}
	made, err := builder.NewResourceGraphDefinition(rgd, krograph.Config{
		MaxCollectionSize: maxCollectionSize, MaxCollectionDimensionSize: maxCollectionDimensions,
	})
	if err == nil {
		return made.CRD, "", nil
	}
	var network *url.Error
	var status apierrors.APIStatus
	if errors.As(err, &network) || errors.As(err, &status) {
		return nil, "", fmt.Errorf("checking the graph: %w", err)
	}
	return nil, err.Error(), nil
}
