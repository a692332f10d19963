// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

func TestParseAnywhere(t *testing.T) {
	tests := map[string]struct {
		args      []string
		firstEnds bool
		name      string
		rest      []string
	}{
		"a flag before the arguments":              {[]string{"--name", "x", "kcp"}, false, "x", []string{"kcp"}},
		"a flag after the arguments":               {[]string{"kcp", "--name=x"}, false, "x", []string{"kcp"}},
		"a flag between the arguments":             {[]string{"a", "--name", "x", "b"}, false, "x", []string{"a", "b"}},
		"the flags of another program are its own": {[]string{"ls", "--name", "x"}, true, "", []string{"ls", "--name", "x"}},
		"nothing": {nil, false, "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			flags := flag.NewFlagSet("", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			got := flags.String("name", "", "")
			rest, err := parseAnywhere(flags, tt.args, tt.firstEnds)
			if err != nil || *got != tt.name {
				t.Errorf("name %q, %v, want %q", *got, err, tt.name)
			}
			if diff := cmp.Diff(tt.rest, rest); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChooseRuntime(t *testing.T) {
	tests := map[string]struct {
		flag, variable string
		want           state.Runtime
		usage          bool
	}{
		"nothing said: an own node":                   {"", "", state.RuntimeNode, false},
		"a kubeconfig given: that cluster":            {"", "/k", state.RuntimeExternal, false},
		"the flag outweighs the variable":             {"node", "/k", state.RuntimeNode, false},
		"kind asked for":                              {"kind", "", state.RuntimeKind, false},
		"external without a kubeconfig is refused":    {"external", "", "", true},
		"external with a kubeconfig":                  {"external", "/k", state.RuntimeExternal, false},
		"what does not exist is refused":              {"docker", "", "", true},
		"a kubeconfig does not override what is kind": {"kind", "/k", state.RuntimeKind, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(runtimeVariable, tt.variable)
			got, err := (&setup{runtime: tt.flag}).chooseRuntime()
			_, usage := errors.AsType[usageError](err)
			if got != tt.want || usage != tt.usage {
				t.Errorf("got %q, %v, want %q, usage=%t", got, err, tt.want, tt.usage)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Setenv("SANDBAR_STATE", t.TempDir())
	tests := map[string]struct {
		args []string
		want int
	}{
		"help":                                {[]string{"help"}, exitOK},
		"no command":                          {nil, exitUsage},
		"an unknown command":                  {[]string{"nope"}, exitUsage},
		"an unknown flag":                     {[]string{"status", "--nope"}, exitUsage},
		"a bad name":                          {[]string{"status", "--name", "../x"}, exitUsage},
		"an unknown part":                     {[]string{"build", "nope"}, exitUsage},
		"the status of a stack that is not":   {[]string{"status", "--name", "absent"}, exitFailed},
		"the exports of a stack that is not":  {[]string{"env", "--name", "absent"}, exitFailed},
		"down with nothing up is a success":   {[]string{"down", "--name", "absent"}, exitOK},
		"restart without a process":           {[]string{"restart", "--name", "absent"}, exitUsage},
		"a unit outside of its own namespace": {[]string{"unit-init", "/nonexistent"}, exitFailed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Run(tt.args); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAStackThatIsNotUpNamesTheCommand(t *testing.T) {
	s := &setup{name: "absent", dir: state.Dir(t.TempDir())}
	_, loaded := s.loaded()
	for name, err := range map[string]error{"status": status(t.Context(), s, nil), "env": env(t.Context(), s, nil), "others": loaded} {
		if err == nil || err.Error() != "stack absent is not up: make up STACK=absent" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReportTellsWhatIsDown(t *testing.T) {
	r := report{
		Name: "dev", State: "/s", KCP: "https://127.0.0.1:1", RuntimeAPI: "https://10.99.0.2:6443",
		Network: map[string]string{"pods": "P", "services": "S"}, Logs: "/s/log",
		Kubeconfigs: map[string]string{"alice": "/a", "kcp-admin": "/k"},
		Units: []unitReport{
			{Name: "kcp"},
			{Name: "node", PID: 7, Processes: []unit.HostProcess{
				{Name: "etcd", HostPID: 8, MemoryBytes: 5 << 20, ProcessStatus: unit.ProcessStatus{Starts: 1, Started: time.Now().Add(-time.Minute)}},
				{Name: "kro", ProcessStatus: unit.ProcessStatus{Starts: 3, LastExit: "exit code 1"}},
			}},
		},
	}
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `stack    dev  (/s)
kcp      https://127.0.0.1:1
runtime  https://10.99.0.2:6443  pods P, Services S
logs     /s/log

PROCESS  PID   MEMORY  STARTS  SINCE  LAST EXIT
kcp      down  -       -       -      
etcd     8     5 MiB   1       1m0s   
kro      down  0 MiB   3       -      exit code 1

kubeconfig  alice      /a
kubeconfig  kcp-admin  /k
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
