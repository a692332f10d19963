// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// module writes a module with one test file, in which ONCE is a file that makes a test fail as long as it
// is not there, and returns its folder.
func module(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	once := filepath.Join(dir, "once")
	head := "package p\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\nvar _, _, _ = os.Args, fmt.Sprint, time.Sleep\n\n" +
		"func failsOnce(t *testing.T, name, text string) {\n\tif _, err := os.Stat(" + quote(once) + " + name); err != nil {\n" +
		"\t\tos.WriteFile(" + quote(once) + "+name, nil, 0o600)\n\t\tt.Error(text)\n\t}\n}\n\n"
	for name, text := range map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p.go": "package p\n", "p_test.go": head + body} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	return dir
}

func quote(s string) string { return "\"" + s + "\"" }

const (
	passes = "func TestPasses(t *testing.T) {}\n"
	fails  = "func TestFails(t *testing.T) { t.Error(\"it is broken\") }\n"
	shaky  = "func TestShaky(t *testing.T) { failsOnce(t, \"a\", \"only once\") }\n"
)

func TestRuns(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		flags  []string
		green  bool
		prints []string
		not    string
	}{
		"all pass": {body: passes, green: true, prints: []string{"ok  "}},
		"a skipped test says why": {
			body: "func TestNot(t *testing.T) { t.Skip(\"no reason\") }\n", green: true, prints: []string{"TestNot: no reason"},
		},
		"a test that passes when it runs alone is flaky": {
			body: passes + shaky, green: true, prints: []string{"is run once more, alone: only once", "FLAKY TestShaky only once"},
		},
		"a subtest makes its test flaky": {
			body:  "func TestTop(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { failsOnce(t, \"a\", \"only once\") }) }\n",
			green: true, prints: []string{"FLAKY TestTop only once"},
		},
		"a test that fails twice is red": {
			body: passes + fails, prints: []string{"== TestFails of p failed", "it is broken", "--- FAIL: TestFails (p): it is broken"},
		},
		"what a test logs does not stand in place of its error": {
			body: "func TestTalks(t *testing.T) { t.Log(\"hello\"); t.Error(\"it is broken\") }\n", prints: []string{"--- FAIL: TestTalks (p): hello … it is broken"},
		},
		"two may be flaky": {
			body: shaky + "func TestOther(t *testing.T) { failsOnce(t, \"b\", \"too\") }\n", green: true, prints: []string{"FLAKY TestShaky", "FLAKY TestOther"},
		},
		"three are not run again": {
			body:   shaky + "func TestB(t *testing.T) { failsOnce(t, \"b\", \"too\") }\nfunc TestC(t *testing.T) { failsOnce(t, \"c\", \"too\") }\n",
			prints: []string{"3 tests failed, more than 2", "--- FAIL: TestC"}, not: "FLAKY",
		},
		"a panic is not run again": {
			body:   "func TestPanics(t *testing.T) { if _, err := os.Stat(\"once\"); err != nil { os.WriteFile(\"once\", nil, 0o600); panic(\"oh\") } }\n",
			prints: []string{"panic: oh", "--- FAIL: TestPanics"}, not: "once more",
		},
		"a data race is not run again": {
			body:   "func TestRaces(t *testing.T) { failsOnce(t, \"a\", \"WARNING: DATA RACE\") }\n",
			prints: []string{"DATA RACE", "--- FAIL: TestRaces"}, not: "once more",
		},
		"what the tests' program says after them counts": {
			body:   passes + "func TestMain(m *testing.M) { m.Run(); println(\"p: impossible: a state\"); os.Exit(1) }\n",
			prints: []string{"impossible: a state", "FAIL p"}, not: "once more",
		},
		"a flaky test does not excuse what is impossible": {
			body:   shaky + "func TestMain(m *testing.M) { m.Run(); println(\"p: impossible: a state\"); os.Exit(1) }\n",
			prints: []string{"impossible: a state", "FAIL p"}, not: "FLAKY",
		},
		"a package that does not compile is red": {
			body: "func TestOf(t *testing.T) { undefined() }\n", prints: []string{"undefined: undefined", "FAIL p"}, not: "once more",
		},
		"a pattern that matches nothing runs nothing": {body: passes + fails, flags: []string{"-run=TestPasses"}, green: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, c.body)
			s := settings{stage: "unit", each: true, report: filepath.Join(dir, "report"), events: filepath.Join(dir, "sub", "events"), flags: c.flags, packages: []string{"."}}
			var out strings.Builder
			green, err := run(t.Context(), s, &out)
			if err != nil || green != c.green {
				t.Errorf("green is %v, %v; it printed\n%s", green, err, &out)
			}
			for _, words := range c.prints {
				if !strings.Contains(out.String(), words) {
					t.Errorf("it does not print %q but\n%s", words, &out)
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("it prints %q:\n%s", c.not, &out)
			}
		})
	}
}

func TestFlakyTestsOfEarlierStagesCount(t *testing.T) {
	dir := module(t, shaky+"func TestOther(t *testing.T) { failsOnce(t, \"b\", \"too\") }\n")
	s := settings{stage: "e2e", report: filepath.Join(dir, "report"), packages: []string{"."}}
	if err := write(s.report, []*result{{Stage: "unit", Test: "TestBefore", Outcome: flaky}}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if green, err := run(t.Context(), s, &out); green || err != nil || !strings.Contains(out.String(), "2 tests failed, more than 2 with those that were flaky before") {
		t.Errorf("green is %v, %v:\n%s", green, err, &out)
	}
}

func TestAQuarantinedTestIsReportedAndDoesNotDecide(t *testing.T) {
	for name, c := range map[string]struct {
		body, quarantine string
		green            bool
		prints           string
	}{
		"a test in it": {
			body: passes + fails, quarantine: "TestFails " + today + " is looked into\n", green: true, prints: "QUARANTINED TestFails is looked into: it is broken",
		},
		"another test": {body: fails, quarantine: "TestOther " + today + " is looked into\n", prints: "--- FAIL: TestFails"},
		"a data race": {
			body: "func TestFails(t *testing.T) { t.Error(\"WARNING: DATA RACE\") }\n", quarantine: "TestFails " + today + " is looked into\n", prints: "--- FAIL: TestFails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := module(t, c.body)
			s := settings{stage: "e2e", report: filepath.Join(dir, "report"), quarantine: filepath.Join(dir, "quarantine"), packages: []string{"."}}
			if err := os.WriteFile(s.quarantine, []byte(c.quarantine), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if green, err := run(t.Context(), s, &out); green != c.green || err != nil || !strings.Contains(out.String(), c.prints) {
				t.Errorf("green is %v, %v; it does not print %q but\n%s", green, err, c.prints, &out)
			}
			if results, err := read(s.report); err != nil || c.green != slices.ContainsFunc(results, func(r result) bool { return r.Outcome == quarantined }) {
				t.Errorf("the report has %+v, %v", results, err)
			}
		})
	}
}

var today = time.Now().UTC().Format(time.DateOnly)

func TestAQuarantineHasLimits(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for content, wants := range map[string]string{
		"# a comment\n\nTestA 2026-11-14 why it fails\n": "",
		"TestA 2026-11-12 why it fails\n":                "more than 14 days",
		"TestA yesterday why\n":                          "the day of TestA",
		"TestA 2026-11-27\n":                             "is not a test, a day and a reason",
		strings.Join([]string{"A", "B", "C", "D", "E", "F", ""}, " 2026-11-27 why\n"): "6 tests are in quarantine, more than 5",
	} {
		path := filepath.Join(t.TempDir(), "quarantine")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		why, err := readQuarantine(path, now)
		switch {
		case wants == "" && (err != nil || why["TestA"] != "why it fails"):
			t.Errorf("%q: %v, %v", content, why, err)
		case wants != "" && (err == nil || !strings.Contains(err.Error(), wants)):
			t.Errorf("%q: %v, want %q", content, err, wants)
		}
	}
}

func TestAFailingCommandBeforeTheSecondRunIsRed(t *testing.T) {
	dir := module(t, shaky)
	s := settings{report: filepath.Join(dir, "report"), before: "echo looked; exit 3", packages: []string{"."}}
	var out strings.Builder
	green, err := run(t.Context(), s, &out)
	if green || err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(out.String(), "looked") {
		t.Errorf("green is %v, %v:\n%s", green, err, &out)
	}
}

func TestTheReportHasEachTest(t *testing.T) {
	dir := module(t, passes+shaky+"func TestNot(t *testing.T) { t.Run(\"sub\", func(t *testing.T) { t.Skip(\"no reason\") }) }\n")
	s := settings{stage: "unit", report: filepath.Join(dir, "report"), packages: []string{"."}}
	if green, err := run(t.Context(), s, new(strings.Builder)); !green || err != nil {
		t.Fatal(green, err)
	}
	data, err := os.ReadFile(s.report)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(data)) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join([]string{r.Stage, r.Test, string(r.Outcome), r.Why}, " "))
	}
	slices.Sort(got)
	want := []string{"unit  pass ", "unit TestNot pass ", "unit TestNot/sub skip no reason", "unit TestPasses pass ", "unit TestShaky flaky only once"}
	if !slices.Equal(got, want) {
		t.Errorf("the report has %q, want %q", got, want)
	}
}

func TestWhatRunsIsSaid(t *testing.T) {
	c := &collector{running: map[string]*result{}, to: newReporter(new(strings.Builder), true)}
	if got := c.now(time.Now()); got != "none runs: packages are being built" {
		t.Errorf("at the beginning: %q", got)
	}
	for _, e := range []event{
		{Action: "start", Package: "p"},
		{Action: "run", Package: "p", Test: "TestA"},
		{Action: "run", Package: "p", Test: "TestB"},
		{Action: "pause", Package: "p", Test: "TestB"},
	} {
		c.take(e)
	}
	if got := c.now(time.Now().Add(time.Minute)); got != "now TestA (60 s)" {
		t.Errorf("one runs and one waits: %q", got)
	}
	c.take(event{Action: "pass", Package: "p", Test: "TestA"})
	c.take(event{Action: "cont", Package: "p", Test: "TestB"})
	if got := c.now(time.Now()); got != "now TestB (0 s)" {
		t.Errorf("the other goes on: %q", got)
	}
}

func TestParallelSubtestsCount(t *testing.T) {
	start := time.Now()
	at := func(action, test string, second int, elapsed float64) event {
		return event{Action: action, Package: "p", Test: test, Elapsed: elapsed, Time: start.Add(time.Duration(second) * time.Second)}
	}
	for name, c := range map[string]struct {
		events []event
		want   float64
	}{
		"two side by side, behind the test's own second": {
			[]event{
				at("cont", "TestTop/a", 1, 0), at("cont", "TestTop/b", 2, 0), at("pass", "TestTop/a", 4, 3),
				at("pass", "TestTop/b", 7, 5), at("pass", "TestTop", 7, 1),
			}, 7,
		},
		"not while all of them wait for their turn": {
			[]event{
				at("cont", "TestTop/a", 1, 0), at("skip", "TestTop/a", 2, 1), at("cont", "TestTop/b", 60, 0),
				at("fail", "TestTop/b", 61, 1), at("fail", "TestTop", 61, 0),
			}, 2,
		},
		"one with parallel subtests of its own counts until it ends": {
			[]event{
				at("cont", "TestTop/a", 0, 0), at("cont", "TestTop/a/x", 1, 0), at("pass", "TestTop/a/x", 5, 4),
				at("pass", "TestTop/a", 5, 1), at("pass", "TestTop", 5, 0),
			}, 5,
		},
		"a group that the test waits for is in its own time": {
			[]event{
				at("run", "TestTop/group", 0, 0), at("cont", "TestTop/group/x", 0, 0), at("pass", "TestTop/group/x", 6, 6),
				at("pass", "TestTop/group", 6, 0), at("pass", "TestTop", 6, 6),
			}, 6,
		},
		"the test's own turn is not a subtest's": {
			[]event{at("pause", "TestTop", 0, 0), at("cont", "TestTop", 30, 0), at("pass", "TestTop", 32, 2)}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			collected := &collector{running: map[string]*result{}, to: newReporter(new(strings.Builder), false)}
			for _, e := range append([]event{at("run", "TestTop", 0, 0)}, c.events...) {
				collected.take(e)
			}
			if got := collected.results[len(collected.results)-1]; got.Test != "TestTop" || got.Seconds != c.want {
				t.Errorf("the last result is %q with %v s, want TestTop with %v s", got.Test, got.Seconds, c.want)
			}
		})
	}
}

// Go's own events have what the test above rests on.
func TestTheReportHasTheTimeOfParallelSubtests(t *testing.T) {
	const body = "func TestTop(t *testing.T) {\n\tfor range 2 {\n\t\tt.Run(\"sub\", func(t *testing.T) {\n" +
		"\t\t\tt.Parallel()\n\t\t\ttime.Sleep(400 * time.Millisecond)\n\t\t})\n\t}\n}\n"
	dir := module(t, body)
	s := settings{stage: "unit", report: filepath.Join(dir, "report"), packages: []string{"."}}
	if green, err := run(t.Context(), s, new(strings.Builder)); !green || err != nil {
		t.Fatal(green, err)
	}
	results, err := read(s.report)
	if err != nil {
		t.Fatal(err)
	}
	top := slices.IndexFunc(results, func(r result) bool { return r.Test == "TestTop" })
	// Go's events have the times at which they were written: one that is late makes the difference smaller than the 0.4 s.
	if top < 0 || results[top].Seconds < 0.3 {
		t.Errorf("the report has %+v, want TestTop with at least 0.3 s", results)
	}
}

func TestWrongUseIsTold(t *testing.T) {
	for _, args := range [][]string{nil, {"--", "-v"}, {"--", "-v", "--"}, {"-nothing", "--", "--", "p"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	s, err := parse([]string{"-stage", "unit", "--", "-race", "-count=1", "--", "a", "b"})
	if err != nil || s.stage != "unit" || !slices.Equal(s.flags, []string{"-race", "-count=1"}) || !slices.Equal(s.packages, []string{"a", "b"}) {
		t.Errorf("%+v, %v", s, err)
	}
}
