// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

func TestTheLastWordsOfALog(t *testing.T) {
	const runner = `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"the app ended","attempt":2,"reason":"Failed","code":7`
	for name, test := range map[string]struct{ log, want string }{
		"a program's own":            {"one\ntwo\n\nthree\nfour\n", "two | three | four"},
		"with what a terminal obeys": {"\x1b[31mred\x1b[0m\nEnd.\n", "[31mred [0m | End"},
		"none":                       {"", ""},
		"of the runner's app": {
			runner + `,"explained":"the app exited with code 7","lastLines":["Error: Cannot find module 'vite'","at main"]}` + "\n" +
				`{"msg":"the app was started","attempt":3}` + "\n",
			"the app exited with code 7 | Error: Cannot find module 'vite' | at main",
		},
		"of an app that speaks for the runner": {
			`{"msg":"the app ended","explained":"the app exited with code 7","logger":"sandbar-runner"}` + "\n" +
				`{"msg":"the app ended","explained":"all is well","lastLines":["nothing to see"]}` + "\n",
			"the app exited with code 7",
		},
		"of a runner, beside what its app prints":     {"one\n" + `{"msg":"the runner serves","logger":"sandbar-runner"}` + "\ntwo\n", ""},
		"of a runner whose app has not crashed often": {runner + "}\n", ""},
		"of an app that logs in JSON":                 {`{"level":"error","message":"boom"}` + "\n", `{"level":"error","message":"boom"}`},
	} {
		got, ofApp := lastWords([]byte(test.log))
		if ofApp != strings.HasPrefix(test.want, "the app exited") {
			t.Errorf("%s: of the app: %t", name, ofApp)
		}
		if name == "with what a terminal obeys" {
			if strings.ContainsRune(got, 0x1b) {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if got, _ := lastWords([]byte(strings.Repeat("x", wordsBytes))); len(got) > outcome.MaxDetail {
		t.Errorf("%d bytes are quoted", len(got))
	}
}

// failingWorld has an instance whose pod crashes.
func failingWorld(t *testing.T) (w *world, now *time.Time) {
	t.Helper()
	w = newWorld(t)
	now = &[]time.Time{fixture.Now}[0]
	w.now = func() time.Time { return *now }
	w.settle()
	pod := fixture.PodOf("a", fixture.Ended(7, "Error"))
	if err := w.runtime.Create(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	w.kroSays(map[string]any{"state": "IN_PROGRESS", "conditions": []any{fixture.KroCondition("Ready", "False", w.kroInstance().GetGeneration(), "waits")}})
	return w, now
}

// "container runner runs and does not report that it is ready" is nothing that a person who wrote an app can act on.
func TestAnAppThatDoesNotStayUpIsSpokenOfAndNotItsContainer(t *testing.T) {
	w, _ := failingWorld(t)
	pod := fixture.PodOf("a", fixture.Running(2*time.Hour, false, 0))
	if err := w.runtime.Delete(t.Context(), pod.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := w.runtime.Create(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	w.log = `{"msg":"the app ended","explained":"the app exited with code 127","lastLines":["sh: vite: not found"],"logger":"sandbar-runner"}` + "\n"
	w.settle()
	const want = "the app ends and is started again; its log tells why. Its last words: the app exited with code 127 | sh: vite: not found"
	if ready := fixture.ConditionOf(t, w.inKCP, "Ready"); !strings.HasSuffix(ready.Message, want) {
		t.Errorf("Ready says %s: %q", ready.Reason, ready.Message)
	}
}

func TestTheLastWordsOfACrashAreToldAndRarelyReadAgain(t *testing.T) {
	w, now := failingWorld(t)
	w.log = "12:00:01 listening on 3000\n12:00:02 panic: no database\n"
	w.settle()
	ready := fixture.ConditionOf(t, w.inKCP, "Ready")
	if want := "12:00:02 panic: no database"; ready.Reason != outcome.ReasonPodNotReady || !strings.HasSuffix(ready.Message, want) {
		t.Fatalf("Ready says %s: %q", ready.Reason, ready.Message)
	}
	read := w.readLogs
	w.settle()
	if w.readLogs != read {
		t.Errorf("read %d times within a moment", w.readLogs-read+1)
	}
	// Another round of the loop says the same at another time: nothing is written.
	*now, w.log, w.patches = now.Add(wordsFirst), "12:00:31 listening on 3000\n12:00:32 panic: no database\n", nil
	if err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(w.patches) != 0 || w.readLogs == read {
		t.Errorf("read %d times, wrote %v", w.readLogs-read, w.patches)
	}
	// It fails in another way.
	*now, w.log = now.Add(wordsMost), "panic: no disk\n"
	w.settle()
	if got := fixture.ConditionOf(t, w.inKCP, "Ready").Message; !strings.HasSuffix(got, "panic: no disk") {
		t.Errorf("Ready says %q", got)
	}
	// It is well again.
	if err := w.runtime.Delete(t.Context(), &corev1.Pod{ObjectMeta: fixture.PodOf("a", corev1.ContainerStatus{}).ObjectMeta}); err != nil {
		t.Fatal(err)
	}
	w.kroSays(fixture.KroReady(w.kroInstance().GetGeneration()))
	w.settle()
	if w.words.Len() != 0 {
		t.Error("the words of what is well are remembered")
	}
}

// The condition says how a container ended as soon as it has: the words beside it are not those of the round before.
func TestTheLastWordsAreOfTheLastEnd(t *testing.T) {
	w, now := failingWorld(t)
	w.log = "panic: no database\n"
	w.settle()
	*now, w.log = now.Add(10*time.Second), "panic: no disk\n"
	var pod corev1.Pod
	if err := w.runtime.Get(t.Context(), client.ObjectKeyFromObject(&corev1.Pod{ObjectMeta: fixture.PodOf("a", corev1.ContainerStatus{}).ObjectMeta}), &pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.ContainerStatuses[0].State.Terminated.ContainerID = "containerd://2"
	if err := w.runtime.Status().Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	read := w.readLogs
	w.settle()
	if got := fixture.ConditionOf(t, w.inKCP, "Ready").Message; !strings.HasSuffix(got, "Its last words: panic: no disk") {
		t.Errorf("Ready says %q", got)
	}
	if w.readLogs != read+1 {
		t.Errorf("the log was read %d times for one end", w.readLogs-read)
	}
}

func TestWithoutALogTheCauseIsToldAlone(t *testing.T) {
	w, _ := failingWorld(t)
	w.settle()
	if got := fixture.ConditionOf(t, w.inKCP, "Ready"); got.Reason != outcome.ReasonPodNotReady || !strings.HasSuffix(got.Message, "its log tells why") {
		t.Errorf("Ready says %s: %q", got.Reason, got.Message)
	}
}

// kro takes a program without a probe for ready in each round of its crash loop, and so do the fields of
// its graph.
func TestARoundOfACrashLoopWritesNothing(t *testing.T) {
	w, _ := failingWorld(t)
	var pod corev1.Pod
	if err := w.runtime.Get(t.Context(), client.ObjectKeyFromObject(&corev1.Pod{ObjectMeta: fixture.PodOf("a", corev1.ContainerStatus{}).ObjectMeta}), &pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.ContainerStatuses[0].RestartCount = outcome.CrashLoopFrom
	if err := w.runtime.Status().Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	between, during := activeStatus(), activeStatus()
	between["readyReplicas"], during["readyReplicas"] = int64(0), int64(1)
	w.kroSays(between)
	w.settle()
	was := fixture.ConditionOf(t, w.inKCP, "Composed")
	w.patches = nil
	w.kroSays(during)
	w.settle()
	if is := fixture.ConditionOf(t, w.inKCP, "Composed"); is != was || is.Reason != outcome.ReasonCrashLoop {
		t.Errorf("Composed was %+v and is %+v", was, is)
	}
	ready, there, _ := unstructured.NestedInt64(w.inKCP.Object, "status", "readyReplicas")
	if !there || ready != 0 || len(w.patches) != 0 {
		t.Errorf("readyReplicas is %d, there %v; written %v", ready, there, w.patches)
	}
}
