// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// recorded is a transcript as the documentation shows it: times are those of a day in March, to the hour.
func recorded(text string) string {
	day := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	return clitest.Times.ReplaceAllStringFunc(text, func(at string) string {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return at
		}
		return day.Add(time.Until(moment).Round(time.Hour)).Format(time.RFC3339)
	})
}

// The pictures of docs/cli-objects.md are drawn from this file: make screens.
func TestTheRecordingsOfTheDocumentation(t *testing.T) {
	w := newWorld(t)
	t.Setenv("TZ", "UTC")
	s := w.WithObjects(t)
	clitest.WithSchema(t, s)
	clitest.Becoming(s, "shop",
		clitest.StateWith("Materializing", "False", "its volume is bound"),
		clitest.StateWith("Materializing", "False", "the image registry.example.com/shop:7 is pulled"),
		clitest.StateWith("Degraded", "False", "the container app exited with code 1\nError: DATABASE_URL is not set"),
		clitest.StateWith("Ready", "True", "all parts are ready"))
	var text strings.Builder
	record := func(line string) {
		code, stdout, stderr := w.Run(t, clitest.Arguments(line)...)
		if code != 0 {
			t.Fatalf("%s: %s", line, stderr)
		}
		fmt.Fprintf(&text, "$ sandbar %s\n%s\n", line, recorded(stdout+clitest.Untimed(stderr)))
	}
	record("create sandbox shop --set lifecycle.sleepAfterUnused=30m --label env=test --wait")
	s.Put("sandboxes", threeDaysLater(s.Object("sandboxes", "default", "shop").Object))
	for i, event := range []struct{ reason, message string }{{"Placed", "it has its namespace on the runtime cluster"}, {"Ready", "all parts are ready"}} {
		s.Put("events", map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": map[string]any{"name": fmt.Sprintf("shop.%d", i)}, "type": "Normal", "reason": event.reason,
			"message": event.message, "involvedObject": map[string]any{"uid": "uid-of-shop"}, "lastTimestamp": clitest.DaysAgo(3),
		})
	}
	record("describe sandbox shop")
	clitest.CompareGolden(t, "recording.golden", text.String())
}

// threeDaysLater is the sandbox of the recording with what the provider has written of it.
func threeDaysLater(obj map[string]any) map[string]any {
	created := time.Now().Add(-84 * time.Hour).UTC().Truncate(time.Second) // so that all of its first second is one second
	micro := func(after time.Duration) string { return created.Add(after).Format("2006-01-02T15:04:05.000000Z") }
	metadata := obj["metadata"].(map[string]any)
	metadata["uid"], metadata["creationTimestamp"] = "uid-of-shop", created.Format(time.RFC3339)
	entry := func(manager, at, subresource string) map[string]any {
		return map[string]any{"manager": manager, "operation": "Update", "apiVersion": "sandbar.dev/v1alpha1", "time": at, "fieldsType": "FieldsV1", "fieldsV1": map[string]any{}, "subresource": subresource}
	}
	metadata["managedFields"] = []any{entry("sandbar-cli", created.Format(time.RFC3339), ""), entry("sandbar", clitest.DaysAgo(1), "status")}
	lifecycle := obj["spec"].(map[string]any)["lifecycle"].(map[string]any)
	lifecycle["shutdownTime"], lifecycle["shutdownPolicy"] = clitest.DaysAgo(-10), "Suspend"
	obj["status"] = map[string]any{
		"phase": "Ready", "observedGeneration": int64(1), "activity": map[string]any{"lastActiveTime": clitest.DaysAgo(1)},
		"dataPlane": map[string]any{"url": "https://sandboxes.example.com/shop", "verbs": []any{"exec", "files", "log", "proxy", "proxy-url", "renew"}},
		"start": map[string]any{"type": "Warm", "set": map[string]any{"name": "node-22"}, "times": map[string]any{
			"requested": micro(0), "placed": micro(120 * time.Millisecond), "ready": micro(470 * time.Millisecond),
		}},
		"conditions": []any{
			map[string]any{"type": "Placed", "status": "True", "reason": "Placed", "message": "it has its namespace", "lastTransitionTime": clitest.DaysAgo(3)},
			map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "all parts are ready", "lastTransitionTime": clitest.DaysAgo(3)},
		},
	}
	return obj
}
