// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASummarySaysWhatAReportHas(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	if err := write(report, []*result{
		{Stage: "unit", Package: "p", Test: "TestFast", Outcome: passed, Seconds: 0.1},
		{Stage: "unit", Package: "p", Test: "TestShaky", Outcome: flaky, Seconds: 2, Why: "only once"},
		{Stage: "unit", Package: "p", Outcome: passed, Seconds: 3},
		{Stage: "e2e", Package: "q", Test: "TestLong", Outcome: skipped, Why: "in make test-all"},
		{Stage: "e2e", Package: "q", Test: "TestLonger", Outcome: skipped, Why: "in make test-all"},
		{Stage: "e2e", Package: "q", Test: "TestSlow", Outcome: failed, Seconds: 61},
		{Stage: "e2e", Outcome: failed, Seconds: 99.6},
	}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := summarize(report, &out); err != nil {
		t.Fatal(err)
	}
	want := `== stages
FAIL      100s  e2e
== 3 tests; the slowest
        61.0s  TestSlow (e2e)
         2.0s  TestShaky (unit)
         0.1s  TestFast (unit)
== skipped
in make test-all: TestLong TestLonger
== flaky: defects to mend
FLAKY TestShaky only once
`
	if out.String() != want {
		t.Errorf("it prints\n%s", &out)
	}
}

func TestAReportThatCannotBeReadIsTold(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(report, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := flakyIn(report); err == nil || !strings.Contains(err.Error(), report) {
		t.Errorf("the error is %v", err)
	}
	if n, err := flakyIn(filepath.Join(t.TempDir(), "none")); n != 0 || err != nil {
		t.Errorf("a report that is not there: %d, %v", n, err)
	}
}
