// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/install/doctor"
)

func TestFindingsForPeopleAndForPrograms(t *testing.T) {
	findings := []doctor.Finding{
		{Check: "kcp", State: doctor.OK, Detail: "it answers"},
		{Check: "data plane", State: doctor.Warning, Detail: "it says \x1b[2J", Remedy: "renew it"},
		{Check: "previews", State: doctor.Skipped, Detail: "needs the check provider"},
	}
	var out bytes.Buffer
	if err := report(&out, findings, false); err != nil {
		t.Errorf("without a failure: %v", err)
	}
	if want := "ok       kcp          it answers\n" +
		"warning  data plane   it says \\x1b[2J\n" +
		"                      renew it\n" +
		"skipped  previews     needs the check provider\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}

	out.Reset()
	findings = append(findings, doctor.Finding{Check: "storage", State: doctor.Failed, Detail: "none"})
	if err := report(&out, findings, true); !errors.Is(err, errUnwell) {
		t.Errorf("with a failure: %v", err)
	}
	var got struct{ Findings []doctor.Finding }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Findings) != len(findings) || got.Findings[1] != findings[1] {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestFlagsOfDoctor(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"": "--kcp-kubeconfig and --runtime-kubeconfig are required",
		"--kcp-kubeconfig a --runtime-kubeconfig b -o yaml":                   `-o "yaml" is not a format`,
		"--kcp-kubeconfig " + missing + " --runtime-kubeconfig b":             "reading --kcp-kubeconfig",
		"--kcp-kubeconfig " + broken + " --runtime-kubeconfig b":              "reading --kcp-kubeconfig",
		"--kcp-kubeconfig a --runtime-kubeconfig b --kro-service-account kro": "--kro-service-account",
		"--kcp-kubeconfig a --runtime-kubeconfig b everything":                "unknown command",
	} {
		cmd := newRootCommand()
		cmd.SetOut(io.Discard)
		cmd.SetArgs(append([]string{"doctor"}, strings.Fields(args)...))
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("doctor %s: %v, want %s", args, err, want)
		}
	}
}
