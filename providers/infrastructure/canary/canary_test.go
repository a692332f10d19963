// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// flock is a kro that can be stopped, and a runtime cluster that can.
type flock struct {
	canary *Canary

	mu sync.Mutex
	// takes is how long kro takes for a beat; negative: for ever.
	takes time.Duration
	fails error
	beats int
	news  int
}

func newFlock(t *testing.T) *flock {
	f := &flock{}
	f.canary = newCanary(Options{}, logr.Discard(), func(ctx context.Context, _ string) error {
		f.mu.Lock()
		f.beats++
		takes, fails := f.takes, f.fails
		f.mu.Unlock()
		if fails != nil {
			return fails
		}
		if takes < 0 {
			<-ctx.Done()
			return errSilent
		}
		time.Sleep(takes)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		for {
			select {
			case <-f.canary.Changed():
				f.set(func() { f.news++ })
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() { _ = f.canary.Start(ctx) }()
	return f
}

func (f *flock) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// kroTakes sets how long kro takes for a beat from now on.
func (f *flock) kroTakes(d time.Duration) { f.set(func() { f.takes = d }) }

// told is how often somebody was told of a change, and beats how many there were.
func (f *flock) told() (news, beats int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.news, f.beats
}

func TestAKroThatStopsIsNoticedWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlock(t)
		f.kroTakes(2 * time.Second)
		if f.canary.State().Known {
			t.Error("it knows something before the first beat")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		news, beats := f.told()
		if s := f.canary.State(); !s.Composing || s.Took != 2*time.Second || news != 1 {
			t.Fatalf("at rest: %+v after %d news", s, news)
		}
		if perMinute := beats / 10; perMinute > 6 {
			t.Errorf("%d beats a minute", perMinute)
		}
		last := f.canary.State().Last
		f.kroTakes(-1)
		time.Sleep(time.Minute)
		synctest.Wait()
		s := f.canary.State()
		if news, _ := f.told(); s.Composing || news != 2 || s.Last.Before(last) {
			t.Errorf("a minute after kro has stopped: %+v after %d news", s, news)
		}
		since := s.Since
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := f.canary.State(); !s.Since.Equal(since) {
			t.Errorf("%+v, want since %s", s, since)
		}
		if news, _ := f.told(); news != 2 {
			t.Errorf("it goes on telling: %d news", news)
		}
		f.kroTakes(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		news, _ = f.told()
		if s := f.canary.State(); !s.Composing || !s.Since.IsZero() || news != 3 {
			t.Errorf("a minute after kro is back: %+v after %d news", s, news)
		}
	})
}

// A runtime cluster that does not answer says nothing about kro, and another condition says it.
func TestARuntimeClusterThatFailsIsNotKro(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlock(t)
		time.Sleep(time.Minute)
		f.set(func() { f.fails = errors.New("connection refused") })
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		news, _ := f.told()
		if s := f.canary.State(); !s.Composing || news != 1 {
			t.Errorf("%+v after %d news", s, news)
		}
	})
}

func TestTheMetricsSayHowOldTheLastBeatIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFlock(t)
		f.kroTakes(2 * time.Second)
		time.Sleep(3 * time.Second)
		f.kroTakes(-1)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		out := make(chan prometheus.Metric, 3)
		f.canary.Collect(out)
		close(out)
		got := map[string]float64{}
		for metric := range out {
			var m dto.Metric
			if err := metric.Write(&m); err != nil {
				t.Fatal(err)
			}
			got[metric.Desc().String()] = m.GetGauge().GetValue()
		}
		want := map[string]float64{composingDesc.String(): 0, ageDesc.String(): 301, tookDesc.String(): 2}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestABeatHasComeBackWhenTheStatusHasWhatWasWrittenLast(t *testing.T) {
	const written = "2026-11-22T10:00:00.5Z"
	for status, want := range map[string]bool{
		written: true, "2026-11-22T10:00:00Z": false, "": false,
		"2026-11-22T11:00:00Z": false, // from before the clock jumped back
	} {
		if cameBack(withBeat(written, status)) != want {
			t.Errorf("with %q written, %q came back: %v", written, status, !want)
		}
	}
}

func withBeat(spec, status string) *unstructured.Unstructured {
	obj := instance(placement.Names{}, spec)
	obj.Object["status"] = map[string]any{"beat": status}
	return obj
}

func TestWhoseFaultItIsThatABeatIsMissing(t *testing.T) {
	gvr := versionOf(placement.Names{}).WithResource(resource)
	missing := apierrors.NewNotFound(gvr.GroupResource(), Name)
	for name, c := range map[string]struct {
		obj    *unstructured.Unstructured
		err    error
		silent bool
		ok     bool
	}{
		"it is there":                   {obj: withBeat("b", "b"), ok: true},
		"kro has not brought it back":   {obj: withBeat("b", "a"), silent: true},
		"kro has not made the kind":     {err: missing, silent: true},
		"the runtime cluster refuses":   {err: apierrors.NewForbidden(gvr.GroupResource(), Name, nil)},
		"the runtime cluster is silent": {err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if c.obj != nil {
				objects = append(objects, c.obj)
			}
			fake := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{gvr: kind + "List"}, objects...)
			if c.err != nil {
				fake.PrependReactor("*", gvr.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			}
			k := &kro{objects: fake.Resource(gvr).Namespace(placement.SystemNamespace)}
			if err := k.blame(); errors.Is(err, errSilent) != c.silent || (err == nil) != c.ok {
				t.Errorf("blamed: %v", err)
			}
			if err := k.unwritten(context.DeadlineExceeded); errors.Is(err, errSilent) != apierrors.IsNotFound(c.err) {
				t.Errorf("blamed for what was not written: %v", err)
			}
		})
	}
}
