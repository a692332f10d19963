// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sandbar-dev/sandbar/pkg/export/exporttest"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// newCensus is a census over an export that offers things at the given shards.
func newCensus(t *testing.T, urls ...string) *kcpCensus {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	slice := &kcpapisv1alpha1.APIExportEndpointSlice{}
	slice.Name, slice.Annotations = defaultExportName, map[string]string{"kcp.io/cluster": fixture.Provider}
	for _, url := range urls {
		slice.Status.APIExportEndpoints = append(slice.Status.APIExportEndpoints, kcpapisv1alpha1.APIExportEndpoint{URL: url})
	}
	export := &kcpapisv1alpha2.APIExport{}
	export.Name = defaultExportName
	export.Spec.Resources = []kcpapisv1alpha2.ResourceSchema{{Name: "things", Group: "sandbar.dev", Schema: "v1.things"}}
	offered := &kcpapisv1alpha1.APIResourceSchema{}
	offered.Name, offered.Labels = "v1.things", map[string]string{placement.LabelTemplate: "thing"}
	offered.Spec.Names.Kind = "Thing"
	offered.Spec.Versions = []kcpapisv1alpha1.APIResourceVersion{{Name: "v1alpha1", Served: true}, {Name: "v1alpha0"}}
	objects := []client.Object{slice, export, offered}
	return &kcpCensus{
		provider: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		config:   &rest.Config{}, exportName: defaultExportName,
	}
}

// A Template that is gone, with what its instances are, was reason enough to delete all their
// placements: the export still offers the kind, and its instances still live.
func TestKindsAreThoseOfTheExportAndNotOfTemplates(t *testing.T) {
	kinds, err := newCensus(t).kinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]scope.Kind{"thing": fixture.Thing}, kinds, cmp.AllowUnexported(scope.Kind{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheCensusNeedsProof(t *testing.T) {
	for name, test := range map[string]struct {
		answer int32
		list   int32
		change func(*placementLabels)
		listed bool
		want   fate
	}{
		"the object is there":                       {answer: http.StatusOK, list: http.StatusServiceUnavailable, want: alive},
		"it is in the list":                         {answer: http.StatusNotFound, list: http.StatusOK, listed: true, want: gone},
		"its name is another's":                     {answer: http.StatusOK, change: func(l *placementLabels) { l.uid = "former" }, want: gone},
		"it is not found":                           {answer: http.StatusNotFound, list: http.StatusServiceUnavailable, want: gone},
		"its workspace is not bound":                {answer: http.StatusForbidden, want: unknown, change: former},
		"kcp does not serve the kind":               {answer: exporttest.NoSuchPath, want: unknown, change: former},
		"the shard is broken":                       {answer: http.StatusServiceUnavailable, want: unknown, change: former},
		"no Template of that name is in the export": {answer: http.StatusNotFound, want: unknown, change: func(l *placementLabels) { l.uid, l.template = "former", "lost" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := exporttest.NewShard(t, "one")
			s.Answer.Store(test.answer)
			if test.list != 0 {
				s.ListAnswer.Store(test.list)
			}
			provider, look, err := newCensus(t, s.URL).begin(t.Context())
			if err != nil || provider != fixture.Provider {
				t.Fatalf("provider %q, error %v", provider, err)
			}
			labels := placementLabels{uid: "on-one", template: "thing"}
			if test.change != nil {
				test.change(&labels)
			}
			ns := nthPlacement(0)
			ns.Labels[placement.LabelTemplate] = labels.template
			owner, _ := placement.OwnerOf(ns)
			madeFor(ns, placement.Owner{Cluster: owner.Cluster, UID: types.UID(labels.uid)})
			if got := look.listed(ns); got != test.listed {
				t.Errorf("listed: %v", got)
			}
			if got := look.ask(t.Context(), ns); got != test.want {
				t.Errorf("fate %v, want %v", got, test.want)
			}
		})
	}
}

type placementLabels struct{ uid, template string }

func former(l *placementLabels) { l.uid = "former" }

// hosts answers requests by host: "silent" never, and every other one that the object is not there.
type hosts struct{ asked map[string]int }

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/web") {
		h.asked[r.URL.Host]++
	}
	if r.URL.Host == "silent" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	exporttest.Status(w, http.StatusNotFound, "")
	return w.Result(), nil
}

// Each placement of a round waited for the shard, ten seconds long: with a thousand of them no sweep ended.
func TestAShardThatDoesNotAnswerIsAskedOncePerRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := newCensus(t, "http://silent", "http://good"), map[string]int{}
		c.config.Transport = hosts{asked}
		for round := 1; round <= 2; round++ {
			_, look, err := c.begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				if got := look.ask(t.Context(), nthPlacement(i, func(ns *corev1.Namespace) { ns.Labels[placement.LabelTemplate] = "thing" })); got != unknown {
					t.Fatalf("fate %v although the instance may be on the shard that does not answer", got)
				}
			}
			if want := map[string]int{"silent": round, "good": 100 * round}; !maps.Equal(asked, want) {
				t.Errorf("asked %v, want %v", asked, want)
			}
		}
	})
}

// A slice that has lost its URLs looks as if nobody had bound the export.
func TestWithoutAShardNothingIsKnown(t *testing.T) {
	_, look, err := newCensus(t).begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := look.ask(t.Context(), nthPlacement(0)); got != unknown {
		t.Errorf("fate %v", got)
	}
}

func TestWithoutASliceOrAnExportThereIsNoLook(t *testing.T) {
	c := newCensus(t)
	c.exportName = "missing"
	if _, _, err := c.begin(t.Context()); err == nil {
		t.Error("no error")
	}
}
