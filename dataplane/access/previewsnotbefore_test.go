// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"
	"time"
)

func TestPreviewsNotBefore(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        time.Time
	}{
		"nothing voids nothing":              {nil, time.Time{}},
		"a time":                             {map[string]string{"sandbar.dev/previews-not-before": "2026-05-04T03:02:01Z"}, time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)},
		"what cannot be read voids all":      {map[string]string{"sandbar.dev/previews-not-before": "yesterday"}, previewsNever},
		"an empty value voids all":           {map[string]string{"sandbar.dev/previews-not-before": ""}, previewsNever},
		"another's annotation voids nothing": {map[string]string{"sandbar.dev/previews": "x"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := previewsNotBefore(c.annotations); !got.Equal(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
