// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

const (
	// Limits of what POST /env may set, all together.
	maxVariables     = 256
	maxVariableName  = 128
	maxVariableBytes = 32 << 10
	maxEnvironment   = 256 << 10

	// maxEnvBody bounds the body: the greatest environment, with JSON escapes.
	maxEnvBody = 2 << 20

	// environmentState is where it is kept.
	environmentState = "environment"
)

// variables are the variables that callers have set. They may be secrets: they are
// never logged, and no answer contains a value.
type variables struct {
	workspace *workspace.Workspace

	mu  sync.Mutex
	set map[string]string
}

// loadVariables reads what an earlier runner kept. The app can write that file;
// what of it could not have been set is left out.
func loadVariables(files *workspace.Workspace) (*variables, error) {
	v := &variables{workspace: files, set: map[string]string{}}
	text, err := files.LoadState(environmentState, maxEnvBody)
	if err != nil {
		return nil, err
	}
	var kept map[string]string
	if json.Unmarshal(text, &kept) == nil && checkVariables(kept) == nil {
		v.set = kept
	}
	return v, nil
}

// over returns base with the variables that are set in place of its own.
func (v *variables) over(base []string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	env := make([]string, 0, len(base)+len(v.set))
	for _, pair := range base {
		name, _, _ := strings.Cut(pair, "=")
		if _, set := v.set[name]; !set {
			env = append(env, pair)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.set)) {
		env = append(env, name+"="+v.set[name])
	}
	return env
}

// names returns the names that are set, in order.
func (v *variables) names() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string{}, slices.Sorted(maps.Keys(v.set))...)
}

// change sets and unsets variables, all or none, and tells whether anything is
// different now.
func (v *variables) change(set map[string]string, unset []string) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := maps.Clone(v.set)
	for _, name := range unset {
		delete(next, name)
	}
	maps.Copy(next, set)
	if err := checkVariables(next); err != nil {
		return false, err
	}
	if maps.Equal(next, v.set) {
		return false, nil
	}
	text, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	if err := v.workspace.SaveState(environmentState, text); err != nil {
		return false, err
	}
	v.set = next
	return true, nil
}

// checkVariables refuses what cannot be an environment, or is the runner's own.
// Its errors have names, and no values.
func checkVariables(set map[string]string) error {
	if len(set) > maxVariables {
		return tooMuchEnvironment("%d variables would be set; the limit is %d", len(set), maxVariables)
	}
	total := 0
	for name, value := range set {
		if err := checkVariableName(name); err != nil {
			return err
		}
		if strings.ContainsRune(value, 0) {
			return malformed("the value of %s contains a zero byte", name)
		}
		if len(value) > maxVariableBytes {
			return tooMuchEnvironment("the value of %s has %d bytes; the limit is %d", name, len(value), maxVariableBytes)
		}
		total += len(name) + len(value) + 2
	}
	if total > maxEnvironment {
		return tooMuchEnvironment("the variables would have %d bytes; the limit is %d", total, maxEnvironment)
	}
	return nil
}

func checkVariableName(name string) error {
	valid := name != "" && len(name) <= maxVariableName && (name[0] < '0' || name[0] > '9')
	for i := range len(name) {
		c := name[i]
		valid = valid && (c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z')
	}
	switch {
	case !valid:
		return malformed("the name %q must have letters, digits and underscores, not begin with a digit, and be at most %d long",
			syncwire.Shorten(name), maxVariableName)
	case strings.HasPrefix(name, envPrefix) || name == "PORT":
		return malformed("%s is the runner's own: leave it out", name)
	}
	return nil
}

func tooMuchEnvironment(format string, args ...any) *apiError {
	return &apiError{
		status: http.StatusRequestEntityTooLarge, Code: "EnvironmentTooLarge", Message: fmt.Sprintf(format, args...),
	}
}

// environment is the app's whole environment, and that of commands.
func (s *server) environment() []string { return s.variables.over(s.config.ChildEnv) }

// envRequest is the body of POST /env.
type envRequest struct {
	Set     map[string]string `json:"set"`
	Unset   []string          `json:"unset"`
	Restart string            `json:"restart"`
}

// envReply is the answer of GET and POST /env.
type envReply struct {
	// Set has the names of the variables that callers have set.
	Set          []string        `json:"set"`
	Changed      bool            `json:"changed"`
	Restarted    bool            `json:"restarted"`
	RestartError *syncwire.Error `json:"restartError,omitempty"`
}

func (s *server) getEnv(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, envReply{Set: s.variables.names()})
	return nil
}

func (s *server) postEnv(w http.ResponseWriter, r *http.Request) error {
	var request envRequest
	body := &utf8Reader{from: http.MaxBytesReader(w, r.Body, maxEnvBody)}
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&request)
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			err = malformed("there is more after the JSON object")
		}
	}
	if err != nil {
		// Not the decoder's message: it may quote a value.
		return cmp.Or[error](body.failure, malformed("the body must be {\"set\": {NAME: value}, \"unset\": [NAME], \"restart\": …}"))
	}
	mode, err := parseRestart(request.Restart)
	if err != nil {
		return err
	}
	reply, after := envReply{}, aftermath{}
	if reply.Changed, err = s.variables.change(request.Set, request.Unset); err != nil {
		return err
	}
	if reply.Changed {
		after.restartFor = []restartMode{restartAuto}
	}
	if mode == restartLater {
		s.deferred.add(after)
	}
	reply.Set = s.variables.names()
	reply.Restarted, reply.RestartError = s.restartAfter(r.Context(), mode, after.restartFor)
	writeJSON(w, http.StatusOK, reply)
	return nil
}
