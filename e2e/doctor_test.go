// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/sandbar-dev/sandbar/install/doctor"
)

// TestTheDoctorOfAProvider: a provider that works passes every check, and a wrong workspace is told at once.
func TestTheDoctorOfAProvider(t *testing.T) {
	calm(t)
	// One that was just started needs seconds to find out what it reports.
	eventually(t, "a provider that works passes", func() error {
		findings, err := examine(t)
		for _, f := range findings {
			if want := wanted(f.Check); want != "" && f.State != want {
				return fmt.Errorf("%s is %s: %s", f.Check, f.State, f.Detail)
			}
		}
		if len(findings) < len(doctor.Checks()) {
			return fmt.Errorf("there are %d findings of %d checks", len(findings), len(doctor.Checks()))
		}
		return err
	})

	findings, err := examine(t, "--workspace", "root:nobody")
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("of a workspace that does not exist: %v, want the exit code 1", err)
	}
	if len(findings) == 0 || findings[0].Check != "kcp" || findings[0].State != doctor.Failed || findings[0].Remedy == "" {
		t.Errorf("of a workspace that does not exist: %+v", findings)
	}
}

// wanted is the state of each finding of a check; empty for any.
func wanted(check string) doctor.State {
	switch check {
	case "gateway": // the stack has none
		return doctor.Skipped
	case "bindings", "baselines", "routes", "interceptions", "images": // those of tests beside this one may be on their way
		return ""
	}
	return doctor.OK
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
