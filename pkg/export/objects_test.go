// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/export/exporttest"
)

func TestAnObjectIsGoneOnlyWhenItsShardSaysSo(t *testing.T) {
	const ok, notFound, forbidden, broken = http.StatusOK, http.StatusNotFound, http.StatusForbidden, http.StatusServiceUnavailable
	for name, test := range map[string]struct {
		answers []int
		found   bool
		gone    bool
	}{
		"one shard, there":                             {answers: []int{ok}, found: true},
		"one shard, not there":                         {answers: []int{notFound}, gone: true},
		"one shard, refused":                           {answers: []int{forbidden}},
		"one shard, which does not know the path":      {answers: []int{exporttest.NoSuchPath}},
		"one shard, which does not know the workspace": {answers: []int{exporttest.NoSuchWorkspace}},
		"no shard":                               {},
		"the other shard has it":                 {answers: []int{notFound, ok}, found: true},
		"the other shard has it, one is broken":  {answers: []int{broken, ok}, found: true},
		"neither shard has it":                   {answers: []int{notFound, notFound}, gone: true},
		"one shard has it not, one does not say": {answers: []int{notFound, broken}},
		"one does not say, one has it not":       {answers: []int{broken, notFound}},
		// A shard refuses all questions about workspaces that are not its own.
		"one refuses, one has it not":            {answers: []int{forbidden, notFound}, gone: true},
		"one has it not, one refuses":            {answers: []int{notFound, forbidden}, gone: true},
		"one has it not, one knows no such path": {answers: []int{notFound, exporttest.NoSuchPath}},
		"both refuse":                            {answers: []int{forbidden, forbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := newTestObjects()
			for i, answer := range test.answers {
				s := exporttest.NewShard(t, strconv.Itoa(i))
				s.Answer.Store(int32(answer))
				addShard(t, objects, s.URL)
			}
			obj, err := objects.Live(t.Context(), web)
			if (obj != nil) != test.found || IsGone(err) != test.gone {
				t.Errorf("found %v, error %v", obj != nil, err)
			}
			if len(test.answers) == 0 && !errors.Is(err, ErrNoEndpoint) {
				t.Errorf("without a shard: %v", err)
			}
		})
	}
}

var (
	thing = Kind{
		GVK:      schema.GroupVersionKind{Group: "sandbar.dev", Version: "v1alpha1", Kind: "Thing"},
		Resource: "things",
	}
	web = Key{Cluster: exporttest.Cluster, NamespacedName: types.NamespacedName{Namespace: "team-a", Name: "web"}}
)

func newTestObjects() *Objects {
	return NewObjects(thing, Options{Config: &rest.Config{}, FieldManager: "sandbar", Log: logr.Discard()})
}

// addShard adds a shard that can be asked and is not followed.
func addShard(t *testing.T, objects *Objects, url string) {
	t.Helper()
	shard, err := NewShard(objects.options.Config, url)
	if err != nil {
		t.Fatal(err)
	}
	objects.followers[url] = newFollower(shard, thing)
}

func TestEndpointsAreFollowedAsTheSliceNamesThemAndLeaveNothingRunning(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	first, second := exporttest.NewShard(t, "first"), exporttest.NewShard(t, "second")
	objects := newTestObjects()
	// The second answers as a virtual workspace does that does not serve the kind yet.
	second.ListAnswer.Store(http.StatusNotFound)
	mustFollow(t, objects, first.URL, second.URL)
	eventuallyKnown(t, objects, first.URL)
	second.ListAnswer.Store(http.StatusOK)
	eventuallyKnown(t, objects, second.URL)
	mustFollow(t, objects, second.URL)
	if all := objects.all(); len(all) != 1 || all[0].URL != second.URL {
		t.Errorf("followed are %v", all)
	}
	objects.Close()
	for _, s := range []*exporttest.Shard{first, second} {
		s.CloseClientConnections()
		s.Close()
	}
	// client-go's watch of metadata leaves a goroutine behind when it is stopped with an event in hand.
	goleak.VerifyNone(t, leaks, goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}

// A shard that accepts connections and answers nothing held up the one reconcile of all kinds.
func TestAShardThatAnswersNothingKeepsNobodyWaiting(t *testing.T) {
	good, silent := exporttest.NewShard(t, "good"), exporttest.NewShard(t, "silent")
	release := make(chan struct{})
	silent.Hang.Store(&release)
	objects := newTestObjects()
	defer func() {
		close(release)
		objects.Close()
	}()
	mustFollow(t, objects, silent.URL, good.URL) // with a deadline of go test's own if it waits
	eventuallyKnown(t, objects, good.URL)
	if obj, err := objects.Live(t.Context(), web); err != nil || obj.GetUID() != "on-good" {
		t.Errorf("asking for an object of the other shard: %v", err)
	}
}

func mustFollow(t *testing.T, objects *Objects, urls ...string) {
	t.Helper()
	if err := objects.Follow(urls); err != nil {
		t.Fatal(err)
	}
}

// eventuallyKnown waits until the watch of an endpoint shows the object.
func eventuallyKnown(t *testing.T, objects *Objects, url string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !objects.followers[url].knows(web) {
		if time.Now().After(deadline) {
			t.Fatal("the watch never showed the object")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// What an informer keeps was read under the schema that its watch began with.
func TestTheWatchKeepsNoSpec(t *testing.T) {
	s := exporttest.NewShard(t, "one")
	objects := newTestObjects()
	defer objects.Close()
	mustFollow(t, objects, s.URL)
	eventuallyKnown(t, objects, s.URL)
	for _, obj := range (*objects.followers[s.URL].informer.Load()).GetStore().List() {
		if _, ok := obj.(*metav1.PartialObjectMetadata); !ok {
			t.Errorf("it keeps a %T", obj)
		}
	}
}

func TestWritesAreRefusedRatherThanCutByAnOlderSchema(t *testing.T) {
	s := exporttest.NewShard(t, "one")
	objects := newTestObjects()
	addShard(t, objects, s.URL)
	if _, err := objects.Patch(t.Context(), web, []byte(`{}`), "status"); err != nil {
		t.Fatal(err)
	}
	if got := *s.Patched.Load(); got != "fieldManager=sandbar&fieldValidation=Strict" {
		t.Errorf("patched with %q", got)
	}
}

func TestWorkspacePathsAreAskedForOnce(t *testing.T) {
	s := exporttest.NewShard(t, "one")
	objects := newTestObjects()
	addShard(t, objects, s.URL)
	// While kcp starts it does not tell; that is not remembered.
	s.ListAnswer.Store(http.StatusForbidden)
	if path := objects.WorkspacePath(t.Context(), exporttest.Cluster); path != "" {
		t.Errorf("path is %q", path)
	}
	s.ListAnswer.Store(http.StatusOK)
	for range 3 {
		if path := objects.WorkspacePath(t.Context(), exporttest.Cluster); path != "root:team-a" {
			t.Errorf("path is %q", path)
		}
	}
	if got := s.Lists.Load(); got != 2 {
		t.Errorf("asked %d times", got)
	}
}

func TestWhatTheWatchShowsIsReturnedAsItShowsIt(t *testing.T) {
	objects := newTestObjects()
	if obj, ok := objects.Shown(web); ok {
		t.Fatalf("before anything is followed it shows %v", obj)
	}
	shard := exporttest.NewShard(t, "a")
	mustFollow(t, objects, shard.URL)
	defer objects.Close()
	eventuallyKnown(t, objects, shard.URL)
	if obj, ok := objects.Shown(web); !ok || obj.GetUID() != "on-a" || obj.GetName() != "web" {
		t.Errorf("it shows %v, %v", obj, ok)
	}
	other := web
	other.Name = "other"
	if obj, ok := objects.Shown(other); ok {
		t.Errorf("of another name it shows %v", obj)
	}
}
