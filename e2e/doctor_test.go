// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"testing"

	"github.com/sandbar-dev/sandbar/install/doctor"
)

// TestTheDoctorOfAProvider: a provider that works passes every check, and a wrong workspace is told at once.
func TestTheDoctorOfAProvider(t *testing.T) {
	calm(t)
	findings, err := examine(t)
	for _, f := range findings {
		t.Logf("%s %s: %s", f.State, f.Check, f.Detail)
		if f.State == doctor.Failed {
			t.Errorf("%s fails", f.Check)
		}
	}
	if err != nil {
		t.Errorf("of a provider that works: %v", err)
	}
	for _, check := range doctor.Checks() {
		state := doctor.OK
		switch check {
		case "gateway": // the stack has none
			state = doctor.Skipped
		case "bindings", "images": // those of tests beside this one may be on their way
			continue
		}
		if !slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Check == check && f.State == state }) {
			t.Errorf("the check %s has no finding that is %s", check, state)
		}
	}

	findings, err = examine(t, "--workspace", "root:nobody")
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("of a workspace that does not exist: %v, want the exit code 1", err)
	}
	if len(findings) == 0 || findings[0].Check != "kcp" || findings[0].State != doctor.Failed || findings[0].Remedy == "" {
		t.Errorf("of a workspace that does not exist: %+v", findings)
	}
}

// examine runs sandbar-provider doctor. The error is that of the process.
func examine(t *testing.T, args ...string) ([]doctor.Finding, error) {
	t.Helper()
	out, failed := world.Doctor(t.Context(), append(args, "-o", "json")...)
	var answer struct {
		Findings []doctor.Finding `json:"findings"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v: %v: %s", failed, err, out)
	}
	return answer.Findings, failed
}
