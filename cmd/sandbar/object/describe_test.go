// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// withFull has a Sandbox that is suspended, with all that there is to describe, as another program than its creator
// left it.
func withFull(t *testing.T, w *world) *objecttest.Server {
	t.Helper()
	s := w.Stocked(t)
	created := clitest.DaysAgo(30)
	managed := func(manager, at, subresource string) map[string]any {
		return map[string]any{"manager": manager, "operation": "Update", "apiVersion": "sandbar.dev/v1alpha1", "time": at, "fieldsType": "FieldsV1", "fieldsV1": map[string]any{}, "subresource": subresource}
	}
	s.Put("sandboxes", map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{
			"name": "full", "uid": "uid-of-full", "creationTimestamp": created, "generation": int64(3),
			"labels": map[string]any{"env": "prod", "tier": "web"}, "annotations": map[string]any{"note": "two\nlines \x1b[2J"},
			"managedFields": []any{managed("sandbar", created, ""), managed("kubectl-edit", clitest.DaysAgo(11), ""), managed("sandbar-provider", clitest.DaysAgo(10), "status")},
		},
		"spec": map[string]any{
			"template":  map[string]any{"templateRef": map[string]any{"name": "node-22"}},
			"lifecycle": map[string]any{"shutdownTime": clitest.DaysAgo(-10), "shutdownPolicy": "Delete"},
		},
		"status": map[string]any{
			"phase": "Suspended", "observedGeneration": int64(2), "activity": map[string]any{"lastActiveTime": clitest.DaysAgo(12)},
			"dataPlane":  map[string]any{"url": "https://sandboxes.example.com/full", "verbs": []any{"exec", "log"}},
			"suspension": map[string]any{"cause": "ByUser", "since": clitest.DaysAgo(9), "kept": []any{"Identity", "Volumes"}},
			"start": map[string]any{"type": "Warm", "set": map[string]any{"name": "pool"}, "times": map[string]any{
				"requested": "2026-01-02T03:04:05.000000Z", "placed": "2026-01-02T03:04:05.120000Z", "ready": "2026-01-02T03:04:05.470000Z",
			}},
			"conditions": []any{
				map[string]any{"type": "Placed", "status": "True", "reason": "Placed", "message": "it has its namespace", "lastTransitionTime": clitest.DaysAgo(29)},
				map[string]any{"type": "Ready", "status": "False", "reason": "Suspended", "message": "suspended by its tenant\nIts last words: \x1b]0;x\x07\nbye", "lastTransitionTime": clitest.DaysAgo(9)},
			},
		},
	})
	s.Put("sandboxes", withStart("cold", "Ready", map[string]float64{"requested": 0, "ready": 66.25}, []string{
		"Scheduled", "ReadyToStartContainers", "Initialized", "Started", "later \x1b[2J", "PodReady",
	}, 1, 3, 2, 65, 66, 66))
	s.Put("sandboxes", withStart("pulling", "Materializing", map[string]float64{"requested": 0}, []string{"Scheduled"}, 2))
	event := func(name, reason, message string, days, count int) {
		s.Put("events", map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": name}, "type": "Normal", "reason": reason, "message": message,
			"involvedObject": map[string]any{"uid": "uid-of-full"}, "lastTimestamp": clitest.DaysAgo(days), "count": int64(count),
		})
	}
	event("full.2", "Suspended", "it is suspended\x1b[2J\nand kept", 9, 1)
	event("full.1", "Ready", "it is ready", 29, 4)
	s.Put("events", map[string]any{"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": "of.another"}, "reason": "Other", "involvedObject": map[string]any{"uid": "uid-of-web"}, "lastTimestamp": clitest.DaysAgo(9)})
	return s
}

// withStart is a Sandbox that got its placement a second after it was created, and started cold. Times are in seconds
// after its creation.
func withStart(name, phase string, times map[string]float64, steps []string, at ...float64) map[string]any {
	created := time.Now().Add(-84*time.Hour - 30*time.Minute).UTC().Truncate(time.Second)
	after := func(seconds float64) time.Time { return created.Add(time.Duration(seconds * float64(time.Second))) }
	moments, list := map[string]any{}, []any{}
	for step, seconds := range times {
		moments[step] = after(seconds).Format(metav1.RFC3339Micro)
	}
	for i, step := range steps {
		list = append(list, map[string]any{"name": step, "time": after(at[i]).Format(time.RFC3339)})
	}
	return map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"metadata": map[string]any{"name": name, "uid": "uid-of-" + name, "creationTimestamp": created.Format(time.RFC3339)},
		"status": map[string]any{"phase": phase, "start": map[string]any{"type": "Cold", "reason": "NoSet", "times": moments, "steps": list}, "conditions": []any{
			map[string]any{"type": "Placed", "status": "True", "reason": "Placed", "message": "it has its namespace", "lastTransitionTime": after(1).Format(time.RFC3339)},
		}},
	}
}

func TestDescribeShowsAllThatIsKnownOfAnObject(t *testing.T) {
	w := newWorld(t)
	t.Setenv("TZ", "UTC")
	withFull(t, w)
	w.Transcript(t, "describe.golden", []clitest.Turn{
		{Name: "an instance", Args: "describe sandbox full"},
		{Name: "one that started cold", Args: "describe sandbox cold"},
		{Name: "one that has not started", Args: "describe sandbox pulling"},
		{Name: "two of them", Args: "describe sandbox api web"},
		{Name: "an object that is not an instance", Args: "describe sandboxset/warm"},
		{Name: "one that is not there", Args: "describe sandbox ful"},
		{Name: "no name", Args: "describe sandboxes"},
		{Name: "no kind", Args: "describe"},
	})
}

// The status is a provider's, of any kind that the workspace has bound, and names are what a server says.
func TestWhatAServerSaysOfAnObjectCannotDrawOnTheTerminal(t *testing.T) {
	w := newWorld(t)
	s := withFull(t, w)
	const evil = "x\x1b[2J\u009b2J\u202e"
	full := s.Object("sandboxes", "default", "full").Object
	full["metadata"].(map[string]any)["uid"] = evil //nolint:forcetypeassert // it was made above
	status, _ := full["status"].(map[string]any)
	status["phase"] = evil
	status["suspension"] = map[string]any{"cause": evil, "since": clitest.DaysAgo(9), "kept": []any{evil}}
	s.Put("sandboxes", full)
	for _, args := range [][]string{{"describe", "sandbox", "full"}, {"get", "sandbox", "full"}, {"get", "sandbox", "full", "-o", "wide"}} {
		code, stdout, stderr := w.Run(t, args...)
		if code != 0 || !strings.Contains(stdout, `x\x1b[2J\x9b2J\u202e`) {
			t.Errorf("%v: exit code %d, %q, %q", args, code, stdout, stderr)
		}
		for line := range strings.Lines(stdout) {
			if line = strings.TrimSuffix(line, "\n"); termsafe.Line(line) != line {
				t.Errorf("%v: a terminal would act on %q", args, line)
			}
		}
	}
}

func TestNamesOfColumnsCannotDrawOnTheTerminal(t *testing.T) {
	columns := []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "x\x1b[2J"}}
	if table := tableOf(Showing{columns: columns}, time.Now()); table.ColumnDefinitions[1].Name != `x\x1b[2J` || columns[1].Name != "x\x1b[2J" {
		t.Errorf("%q, %q", table.ColumnDefinitions, columns)
	}
}

func TestDescribeLeavesOutEarlyEventsAndSaysSo(t *testing.T) {
	w := newWorld(t)
	s := withFull(t, w)
	for i := range 30 {
		s.Put("events", map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": fmt.Sprintf("more.%02d", i)}, "reason": fmt.Sprintf("R%02d", i),
			"involvedObject": map[string]any{"uid": "uid-of-full"}, "lastTimestamp": clitest.DaysAgo(8),
		})
	}
	_, stdout, _ := w.Run(t, "describe", "sandbox", "full")
	if !strings.Contains(stdout, "(12 earlier ones are left out)") || strings.Contains(stdout, "R09") || !strings.Contains(stdout, "R10") || !strings.Contains(stdout, "R29") {
		t.Errorf("%s", stdout)
	}
}

// A tenant may read its sandboxes and no events.
func TestDescribeSaysWhyThereAreNoEvents(t *testing.T) {
	w := newWorld(t)
	s := withFull(t, w)
	s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return false
		}
		objecttest.Refuse(rw, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no right")))
		return true
	})
	code, stdout, _ := w.Run(t, "describe", "sandbox", "full")
	if code != 0 || !strings.Contains(stdout, "\nEvents: listing events: events is forbidden: no right\n") {
		t.Errorf("%d\n%s", code, stdout)
	}
}
