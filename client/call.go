// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// maxErrorBytes bounds what is read of an answer that is an error: the conflicts of a batch of
// 10,000 files have room.
const maxErrorBytes = 4 << 20

// Request is a call of a verb.
type Request struct {
	// Method defaults to GET.
	Method string
	Verb   string
	// Tail follows the verb in the path; it is not escaped yet.
	Tail  string
	Query url.Values
	// Header is sent along; the credential is added and cannot be set here.
	Header http.Header
	Body   io.Reader
}

// CallError is an answer that is no success: of the data plane (a metav1.Status) or of what
// stands behind it.
type CallError struct {
	// Code is the HTTP status.
	Code int
	// Reason is the Status's reason, or the code of the runner's error ("Conflict"); empty when
	// the answer names none.
	Reason string
	// Cause is the type of the first cause of the Status, for example v1alpha1.CauseSuspended; empty when
	// it names none.
	Cause metav1.CauseType
	// Sandbox tells that the answer is of the runner in the sandbox, not of the data plane.
	Sandbox bool
	// Message is for people. It may come from inside a sandbox: escape it before it goes to a
	// terminal.
	Message string
	// Verb is the verb that was called, empty for the catalogue.
	Verb string
	// ExitCode is what a shell exits with for a command that could not be started: 127 if there is no
	// such program, 126 if it cannot be run, 125 for another reason. It is zero for all other calls.
	ExitCode int
	// RetryAfter is how long the server asks to wait; zero if it does not.
	RetryAfter time.Duration
	// Body is the answer, at most 4 MiB of it.
	Body []byte
}

// Suspended reports whether the instance is suspended, by its tenant or by its shutdown time: it stays so
// until somebody resumes it.
func (e *CallError) Suspended() bool {
	return e.Cause == sandbarv1alpha1.CauseSuspended || e.Cause == sandbarv1alpha1.CauseExpired
}

// Error implements error.
func (e *CallError) Error() string {
	message := e.Message
	if message == "" {
		message = http.StatusText(e.Code)
	}
	return fmt.Sprintf("%d: %s", e.Code, message)
}

// Do calls a verb and returns the answer; its body must be closed. An answer of 400 and above is
// a *CallError; a redirect is an answer, and is not followed. Do retries nothing: what may be sent twice, the caller knows.
func (i *Instance) Do(ctx context.Context, call Request) (*http.Response, error) {
	if call.Method == "" {
		call.Method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, i.URL(call.Verb, call.Tail, call.Query).String(), call.Body)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", call.Verb, err)
	}
	for name, values := range call.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Del("Authorization")
	res, err := i.plane.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", call.Verb, err)
	}
	if res.StatusCode >= http.StatusBadRequest {
		defer res.Body.Close()
		return nil, fmt.Errorf("calling %s: %w", call.Verb, readError(res, call.Verb))
	}
	return res, nil
}

// ask is Do for what a data plane or a runner answers itself, which redirects nothing: a redirect is a *CallError. It is of
// a front that shows a page to log in, or of somebody who would have the answer come from elsewhere; to take it for a
// success would say that a sandbox was restarted, and copy the page of the redirect as a file.
func (i *Instance) ask(ctx context.Context, call Request) (*http.Response, error) {
	res, err := i.Do(ctx, call)
	if err != nil || res.StatusCode < http.StatusMultipleChoices || res.StatusCode == http.StatusNotModified {
		return res, err
	}
	_ = res.Body.Close()
	return nil, fmt.Errorf("calling %s: %w", call.Verb, &CallError{Code: res.StatusCode, Verb: call.Verb, Message: fmt.Sprintf(
		"it redirects to %q, and a credential does not follow a redirect: correct the data plane's address, or what answers there in its place", res.Header.Get("Location"))})
}

// DoJSON calls a verb with in as JSON body, nil for none, and decodes the answer into out, nil
// for nothing. A redirect is a *CallError too.
func (i *Instance) DoJSON(ctx context.Context, call Request, in, out any) error {
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding the body of %s: %w", call.Verb, err)
		}
		call.Body = bytes.NewReader(body)
		call.Header = call.Header.Clone()
		if call.Header == nil {
			call.Header = http.Header{}
		}
		call.Header.Set("Content-Type", "application/json")
	}
	res, err := i.ask(ctx, call)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", call.Verb, err)
	}
	return nil
}

// readError understands a metav1.Status and the runner's {code, message}.
func readError(res *http.Response, verb string) *CallError {
	e := &CallError{Code: res.StatusCode, Verb: verb}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, 3600)) * time.Second
	}
	e.Body, _ = io.ReadAll(io.LimitReader(res.Body, maxErrorBytes)) //nolint:forbidigo // maxErrorBytes
	var status metav1.Status
	var plain struct {
		Code, Message string
		ExitCode      int
	}
	switch {
	case json.Unmarshal(e.Body, &status) == nil && status.Kind == "Status":
		e.Reason, e.Message = string(status.Reason), status.Message
		if status.Details != nil && len(status.Details.Causes) > 0 {
			e.Cause = status.Details.Causes[0].Type
		}
	case json.Unmarshal(e.Body, &plain) == nil && plain.Message != "":
		e.Reason, e.Message, e.ExitCode, e.Sandbox = plain.Code, plain.Message, plain.ExitCode, true
	case strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain"):
		e.Message = strings.TrimSpace(string(e.Body))
	}
	return e
}

// Restart restarts the instance's process and returns when the new one runs.
func (i *Instance) Restart(ctx context.Context) error {
	return i.DoJSON(ctx, Request{Method: http.MethodPost, Verb: "restart"}, nil, nil)
}
