// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/wake"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/keptlog"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// keptLogTimeout bounds the question to the runtime cluster.
const keptLogTimeout = 10 * time.Second

// wantsKeptLog reports whether a request asks for the log of an instance that is suspended, and that no
// request wakes. To read it is no use of the instance.
func (x *exchange) wantsKeptLog(at *locate.Place) bool {
	cause := wake.Suspension(at.Instance)
	return x.route.Verb == contract.LogVerb && cause != "" && cause != sandbarv1alpha1.SuspendedUnused
}

// serveKeptLog answers what was kept of the log when the instance was suspended (package keptlog). It is
// read for each request and kept nowhere.
func (h *handler) serveKeptLog(x *exchange, at *locate.Place, e sandbarv1alpha1.Endpoint) *refusal.Error {
	if x.route.Tail != "" && x.route.Tail != "/" {
		return refusal.Malformed("this verb has no paths below it")
	}
	values := x.request.URL.Query()
	gone := wake.Refused(wake.Suspension(at.Instance))
	if follow, err := strconv.ParseBool(values.Get(logwire.ParamFollow)); err == nil && follow {
		gone.Message += "; without follow, its log up to then is answered"
		return gone
	}
	question, refused := keptQuestion(values, time.Now())
	if refused != nil {
		return refused
	}
	kept, refused := h.keptLog(x.request.Context(), at)
	if refused != nil {
		return refused
	}
	container, refused := h.placer.KeptContainer(kept, at, x.route, e, values.Get("container"))
	if refused != nil {
		return refused
	}
	if container == nil || container.Unread {
		return gone
	}
	header := x.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set(logwire.KeptHeader, kept.At.UTC().Format(time.RFC3339))
	x.WriteHeader(http.StatusOK)
	if x.request.Method != http.MethodHead {
		_, _ = x.Write(container.Lines(question))
	}
	return nil
}

// keptLog reads what was kept; a log without containers when nothing was.
func (h *handler) keptLog(ctx context.Context, at *locate.Place) (*keptlog.Log, *refusal.Error) {
	ctx, cancel := context.WithTimeout(ctx, keptLogTimeout)
	defer cancel()
	secret, err := h.secrets.Secrets(at.ID.Namespace()).Get(ctx, placement.LogSecret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &keptlog.Log{}, nil
	case apierrors.IsForbidden(err):
		return nil, refusal.BadGateway(refusal.CauseKeptLog, "the provider may not read what it kept of the instance's log: tell the operator", err)
	case err != nil:
		return nil, refusal.Unavailable(refusal.CauseKeptLog, "what was kept of the instance's log could not be read: try again", 0, err)
	}
	// A Secret that somebody else has put there is not ours to show.
	if err := at.ID.Check(secret); err != nil {
		return nil, refusal.BadGateway(refusal.CauseForeignRef, "what was kept of the instance's log is not its own: ask the operator", err)
	}
	kept, err := keptlog.Decode(secret.Data)
	if err != nil {
		return nil, refusal.BadGateway(refusal.CauseKeptLog, "what was kept of the instance's log cannot be read: tell the operator", err)
	}
	return kept, nil
}

// keptQuestion reads which lines a caller wants, in the words of the runner's log and of a pod's.
func keptQuestion(values url.Values, now time.Time) (keptlog.Question, *refusal.Error) {
	q := keptlog.Question{Tail: -1}
	if values.Has(logwire.ParamOffset) || !slices.Contains([]string{"", logwire.AllStreams}, values.Get(logwire.ParamStream)) {
		return q, refusal.Malformed("of a suspended instance the log tells neither offsets nor stdout from stderr: leave offset and stream out")
	}
	if text := values.Get(logwire.ParamTimestamps); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return q, refusal.Malformed("timestamps must be true or false")
		}
		q.Timestamps = on
	}
	if text := values.Get(logwire.ParamTail); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return q, refusal.Malformed("tail must be a number that is not negative")
		}
		q.Tail = n
	}
	return q, keptSince(&q, values.Get(logwire.ParamSince), now)
}

// keptSince takes seconds, as a pod's log does, and durations and times, as the runner's does.
func keptSince(q *keptlog.Question, text string, now time.Time) *refusal.Error {
	if text == "" {
		return nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		q.Since = at
		return nil
	}
	if _, err := strconv.ParseUint(text, 10, 31); err == nil {
		text += "s"
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return refusal.Malformed("since must be a duration such as 10m, seconds, or a time such as 2006-01-02T15:04:05Z")
	}
	q.Since = now.Add(-age)
	return nil
}
