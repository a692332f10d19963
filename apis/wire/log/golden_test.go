// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package logwire_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
)

// A client or a runner of another version reads and writes these bytes.
func TestRecordsAreThoseOfTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile("testdata/records.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	want := []logwire.Record{
		{Offset: 0, Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Stream: logwire.Stdout, Attempt: 1, Data: []byte("héllo \"world\"\n")},
		{Offset: 15, Time: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), Stream: logwire.Stderr, Attempt: 1, Data: []byte{0xff, 0, '\n'}},
		{Offset: 4096, Lost: 4078},
		{Offset: 4096, Time: time.Date(2026, 1, 2, 3, 4, 7, 0, time.UTC), Stream: logwire.Stdout, Attempt: 2, Data: []byte("\x1b[1mhalf")},
	}
	var got []logwire.Record
	for line := range bytes.Lines(golden) {
		r, err := logwire.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	var written []byte
	for i := range want {
		written = append(want[i].AppendJSON(written), '\n')
	}
	if diff := cmp.Diff(string(golden), string(written)); diff != "" {
		t.Errorf("written (-golden +got):\n%s", diff)
	}
}

func TestNumbersAndNamesAreThoseOfTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile("testdata/names.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(map[string]any{
		"contentType": logwire.ContentType, "maxRecordSize": logwire.MaxRecordBytes, "runnerLogger": logwire.RunnerLogger,
		"headers": map[string]any{"id": logwire.IDHeader, "kept": logwire.KeptHeader, "offset": logwire.OffsetHeader},
		"parameters": []any{
			logwire.ParamFollow, logwire.ParamTimestamps, logwire.ParamFormat, logwire.ParamStream,
			logwire.ParamTail, logwire.ParamSince, logwire.ParamOffset, logwire.ParamLog,
		},
		"formats": []any{logwire.FormatText, logwire.FormatJSON},
		"streams": []any{logwire.Stdout, logwire.Stderr, logwire.AllStreams},
	}, "", "  ")
	if diff := cmp.Diff(string(golden), string(text)+"\n"); err != nil || diff != "" {
		t.Errorf("names (-golden +got), %v:\n%s", err, diff)
	}
}
