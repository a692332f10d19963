// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
)

func TestTheClientReadsTheLogOfTheGoldenFile(t *testing.T) {
	i := runnerOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "format=json" {
			t.Errorf("the query is %s", r.URL.RawQuery)
		}
		w.Header().Set("Content-Type", logwire.ContentType)
		w.Header().Set(logwire.IDHeader, "a")
		w.Header().Set(logwire.OffsetHeader, "0")
		_, _ = w.Write(append(goldenOf(t, "log", "records.ndjson"), '\n'))
	})
	var got []string
	for e, err := range i.Logs(t.Context(), LogOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %d %q lost %d", e.Type, e.Record.Stream, e.Record.Offset, e.Record.Data, e.Record.Lost))
	}
	want := []string{
		`connected  0 "" lost 0`,
		`output stdout 0 "héllo \"world\"\n" lost 0`,
		`output stderr 15 "\xff\x00\n" lost 0`,
		`gap  4096 "" lost 4078`,
		`output stdout 4096 "\x1b[1mhalf" lost 0`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
