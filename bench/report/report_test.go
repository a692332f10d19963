// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"testing"
	"time"
)

func TestPercentileIsTheNearestRank(t *testing.T) {
	var hundred []time.Duration
	for i := 100; i >= 1; i-- {
		hundred = append(hundred, time.Duration(i))
	}
	for name, tc := range map[string]struct {
		samples []time.Duration
		p       float64
		want    time.Duration
	}{
		"the median of a hundred is the fiftieth":   {hundred, 50, 50},
		"the 99th of a hundred is the last but one": {hundred, 99, 99},
		"of one sample every percentile is it":      {[]time.Duration{7}, 99, 7},
		"the 99th of thirty is the largest":         {hundred[:30], 99, 100},
		"no samples give zero":                      {nil, 50, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Percentile(tc.samples, tc.p); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLineIsForPeopleAndPrograms(t *testing.T) {
	l := Line{Name: "create", Fields: []Field{{"p50_ms", 1034.5}, {"ratio", 1.2345}, {"n", 30}}}
	if got, want := l.String(), "BENCH create p50_ms=1034 ratio=1.23 n=30"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
