// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package logwire_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/runner/logwire"
)

func TestARecordComesBackAsItWas(t *testing.T) {
	ascii := make([]byte, 128)
	for i := range ascii {
		ascii[i] = byte(i)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for name, r := range map[string]logwire.Record{
		"a line":               {Offset: 7, Time: at, Stream: "stdout", Attempt: 1, Data: []byte("héllo\n")},
		"bytes, not UTF-8":     {Offset: 7, Time: at, Stream: "stderr", Attempt: 2, Data: []byte{0xff, 0, '\n'}},
		"half a character":     {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("x\xc3")},
		"a literal U+FFFD":     {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("\ufffd")},
		"control characters":   {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("\x1b[2J\x00")},
		"all of ASCII":         {Time: at, Stream: "stdout", Attempt: 2, Data: ascii},
		"a gap":                {Offset: 9, Lost: 12},
		"separators, brackets": {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("\u2028<&>")},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var got logwire.Record
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, got); diff != "" || got.Next() != r.Offset+int64(len(r.Data)) {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
			if bytes.ContainsRune(line, '\n') {
				t.Errorf("the record is more than a line: %s", line)
			}
		})
	}
}
