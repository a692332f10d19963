// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// shard is a virtual workspace that serves things and watches, as far as these tests go.
type shard struct {
	*httptest.Server
	// answer decides what a GET of the one object answers; 200 and the object by default.
	answer atomic.Int32
	// listAnswer decides what a list answers.
	listAnswer atomic.Int32
	lists      atomic.Int32
	name       string
}

func newShard(t *testing.T, name string) *shard {
	t.Helper()
	s := &shard{name: name}
	s.answer.Store(http.StatusOK)
	s.listAnswer.Store(http.StatusOK)
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *shard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	object := fmt.Sprintf(`{"apiVersion":"sandbar.dev/v1alpha1","kind":"Thing","metadata":{"name":"web","namespace":"team-a",
		"uid":"on-%s","resourceVersion":"1","annotations":{"kcp.io/cluster":%q}}}`, s.name, testCluster)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/web"):
		status(w, int(s.answer.Load()), object)
	case r.URL.Query().Get("watch") != "":
		// A streamed list: the object, then the bookmark that says that this was all.
		_, _ = fmt.Fprintf(w, `{"type":"ADDED","object":%s}{"type":"BOOKMARK","object":{"apiVersion":"sandbar.dev/v1alpha1","kind":"Thing",
			"metadata":{"resourceVersion":"2","annotations":{"k8s.io/initial-events-end":"true"}}}}`, object)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		s.lists.Add(1)
		status(w, int(s.listAnswer.Load()),
			`{"apiVersion":"sandbar.dev/v1alpha1","kind":"ThingList","metadata":{"resourceVersion":"1"},"items":[`+object+`]}`)
	}
}

func status(w http.ResponseWriter, code int, ok string) {
	w.WriteHeader(code)
	if code == http.StatusOK {
		_, _ = w.Write([]byte(ok))
		return
	}
	reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden"}[code]
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

func TestAnObjectIsGoneOnlyWhenEveryShardSaysSo(t *testing.T) {
	const ok, notFound, forbidden, broken = http.StatusOK, http.StatusNotFound, http.StatusForbidden, http.StatusServiceUnavailable
	for name, test := range map[string]struct {
		answers []int
		found   bool
		gone    bool
	}{
		"one shard, there":                       {answers: []int{ok}, found: true},
		"one shard, not there":                   {answers: []int{notFound}, gone: true},
		"one shard, refused":                     {answers: []int{forbidden}},
		"no shard":                               {},
		"the other shard has it":                 {answers: []int{notFound, ok}, found: true},
		"the other shard has it, one is broken":  {answers: []int{broken, ok}, found: true},
		"neither shard has it":                   {answers: []int{notFound, notFound}, gone: true},
		"one shard has it not, one does not say": {answers: []int{notFound, broken}},
		"one does not say, one has it not":       {answers: []int{broken, notFound}},
		"one refuses, one has it not":            {answers: []int{forbidden, notFound}},
	} {
		t.Run(name, func(t *testing.T) {
			tenants := newTenants(thing, &rest.Config{})
			for i, answer := range test.answers {
				s := newShard(t, strconv.Itoa(i))
				s.answer.Store(int32(answer))
				e, err := newEndpoint(tenants.config, s.URL, thing)
				if err != nil {
					t.Fatal(err)
				}
				tenants.endpoints[s.URL] = e
			}
			obj, err := tenants.live(t.Context(), testRequest)
			if (obj != nil) != test.found || apierrors.IsNotFound(err) != test.gone {
				t.Errorf("found %v, error %v", obj != nil, err)
			}
			if len(test.answers) == 0 && !errors.Is(err, errNoEndpoint) {
				t.Errorf("without a shard: %v", err)
			}
		})
	}
}

func TestEndpointsAreFollowedAsTheSliceNamesThemAndLeaveNothingRunning(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	first, second := newShard(t, "first"), newShard(t, "second")
	tenants := newTenants(thing, &rest.Config{})
	opened := []string{}
	follow := func(urls ...string) error {
		return tenants.follow(t.Context(), urls, func(e *endpoint) error {
			opened = append(opened, e.url)
			return nil
		})
	}
	// The second answers as a virtual workspace does that does not serve the kind yet.
	second.listAnswer.Store(http.StatusNotFound)
	if err := follow(first.URL, second.URL); err == nil {
		t.Error("the endpoint that cannot be opened is no error")
	}
	waitCached(t, tenants)
	second.listAnswer.Store(http.StatusOK)
	if err := follow(first.URL, second.URL); err != nil {
		t.Fatal(err)
	}
	if len(opened) != 2 || opened[0] != first.URL || opened[1] != second.URL {
		t.Errorf("opened %v", opened)
	}
	if err := follow(second.URL); err != nil {
		t.Fatal(err)
	}
	if open := tenants.open(); len(open) != 1 || open[0].url != second.URL {
		t.Errorf("open are %v", open)
	}
	waitCached(t, tenants)
	tenants.close()
	for _, s := range []*shard{first, second} {
		s.CloseClientConnections()
		s.Close()
	}
	goleak.VerifyNone(t, leaks)
}

func waitCached(t *testing.T, tenants *tenants) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tenants.cached(testRequest) == nil {
		if time.Now().After(deadline) {
			t.Fatal("the object never came into the cache")
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestWorkspacePathsAreAskedForOnce(t *testing.T) {
	s := newShard(t, "one")
	tenants := newTenants(thing, &rest.Config{})
	e, err := newEndpoint(tenants.config, s.URL, thing)
	if err != nil {
		t.Fatal(err)
	}
	tenants.endpoints[s.URL] = e
	for range 3 {
		if path := tenants.workspacePath(t.Context(), testCluster); path != "" {
			t.Errorf("path is %q", path)
		}
	}
	if got := s.lists.Load(); got != 1 {
		t.Errorf("asked %d times", got)
	}
}
