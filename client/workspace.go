// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/runner/syncwire"
)

// maxListing bounds the entries of a listing that are taken: four times what a workspace may have
// by default. The app can make more; a client does not follow it there.
const maxListing = 1_000_000

// Workspace is the workspace of an instance, or of a component, for package devsync: its verbs
// "files" and "sync".
func (i *Instance) Workspace() devsync.Remote { return workspace{i} }

type workspace struct{ instance *Instance }

// List implements devsync.Remote.
func (w workspace) List(ctx context.Context, exclude []string, known string) (*devsync.Listing, error) {
	call := Request{Verb: "files", Query: url.Values{"exclude": exclude}}
	if known != "" {
		call.Header = http.Header{"If-None-Match": {known}}
	}
	res, err := w.instance.Do(ctx, call)
	if err != nil {
		return nil, remoteError(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotModified {
		return nil, nil //nolint:nilnil // what devsync.Remote says
	}
	listing, err := readListing(res.Body)
	if err != nil {
		return nil, remoteError(ctx, fmt.Errorf("reading the listing: %w", err))
	}
	listing.Tag = res.Header.Get("Etag")
	return listing, nil
}

func readListing(body io.Reader) (*devsync.Listing, error) {
	d := json.NewDecoder(bufio.NewReader(body))
	var head syncwire.ListingHead
	if err := d.Decode(&head); err != nil {
		return nil, err
	}
	if head.Entries < 0 || head.Entries > maxListing {
		return nil, &CallError{Code: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the workspace has %d entries; the limit is %d", head.Entries, maxListing)}
	}
	listing := &devsync.Listing{}
	for range head.Entries { // fewer are a listing that was cut off, and no deletions
		var e syncwire.Entry
		if err := d.Decode(&e); err != nil {
			return nil, err
		}
		listing.Entries = append(listing.Entries, e)
	}
	return listing, nil
}

// maxChangeLine bounds a line of the verb changes: a path and a symlink's target, escaped.
const maxChangeLine = 64 << 10

// Changes implements devsync.Remote.
func (w workspace) Changes(ctx context.Context, exclude []string, tell func(syncwire.Change)) error {
	res, err := w.instance.Do(ctx, Request{Verb: "changes", Query: url.Values{"exclude": exclude}})
	if err != nil {
		return remoteError(ctx, err)
	}
	defer res.Body.Close()
	for in := bufio.NewReaderSize(res.Body, maxChangeLine); ; {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return remoteError(ctx, fmt.Errorf("reading the changes: %w", err))
		}
		var change syncwire.Change
		if err := json.Unmarshal(line, &change); err != nil {
			return remoteError(ctx, fmt.Errorf("reading the changes: %w", err))
		}
		tell(change)
	}
}

// Read implements devsync.Remote.
func (w workspace) Read(ctx context.Context, path string) (io.ReadCloser, error) {
	res, err := w.instance.Do(ctx, Request{Verb: "files", Tail: path}) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, remoteError(ctx, err)
	}
	return content{res.Body, ctx}, nil
}

// content is a body whose errors say what helps against them: a connection that breaks in the
// middle is one that breaks.
type content struct {
	io.ReadCloser
	ctx context.Context //nolint:containedctx // of the call that the body answers
}

func (c content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = remoteError(c.ctx, err)
	}
	return n, err
}

// Chunks implements devsync.Remote.
func (w workspace) Chunks(ctx context.Context, path string) (*syncwire.Chunks, error) {
	chunks := &syncwire.Chunks{}
	err := w.instance.DoJSON(ctx, Request{Verb: "files", Tail: path, Query: url.Values{"chunks": {"true"}}}, nil, chunks)
	if err != nil {
		return nil, remoteError(ctx, err)
	}
	return chunks, nil
}

// Apply implements devsync.Remote.
func (w workspace) Apply(ctx context.Context, restart string, write func(*syncwire.Encoder) error) (*devsync.Applied, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader, writer := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		out := bufio.NewWriterSize(writer, 64<<10)
		err := write(syncwire.NewEncoder(out, nil, restart))
		if err == nil {
			err = out.Flush()
		}
		_ = writer.CloseWithError(err) // a nil error ends the body well
		wrote <- err
	}()
	applied := &devsync.Applied{}
	reply := struct {
		*devsync.Applied
		RestartError *struct{ Message string } `json:"restartError"`
	}{Applied: applied}
	err := w.send(ctx, reader, &reply)
	_ = reader.CloseWithError(errAnswered) // unblocks a writer whose reader is gone
	if failed := <-wrote; failed != nil && !errors.Is(failed, errAnswered) && !errors.Is(failed, io.ErrClosedPipe) && ctx.Err() == nil {
		return nil, failed // what was sent was cut off, so nothing was applied
	}
	if err != nil {
		return nil, remoteError(ctx, err)
	}
	if reply.RestartError != nil {
		applied.RestartError = reply.RestartError.Message
	}
	return applied, nil
}

// errAnswered is what a writer gets when the answer came before it was done.
var errAnswered = errors.New("the answer came before the end of the batch")

func (w workspace) send(ctx context.Context, body io.Reader, reply any) error {
	res, err := w.instance.Do(ctx, Request{
		Method: http.MethodPost, Verb: "sync", Body: body, Header: http.Header{"Content-Type": {syncwire.ContentType}},
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(reply); err != nil {
		return fmt.Errorf("reading the answer of sync: %w", err)
	}
	return nil
}

// remoteError says what helps against an error.
func remoteError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &devsync.RemoteError{Kind: devsync.Refused, Message: err.Error(), Err: err}
	var answer *CallError
	if errors.As(err, &answer) {
		out.Message, out.RetryAfter = answer.Message, answer.RetryAfter
	}
	switch {
	case Temporary(err):
		out.Kind = devsync.Unavailable
	case answer != nil && answer.Code == http.StatusRequestEntityTooLarge:
		// Whoever says it: less at once may be taken, and a file that is too large by itself is
		// the only one that is refused.
	case answer == nil, answer.Code == http.StatusUnauthorized, answer.Code == http.StatusForbidden, !answer.Sandbox:
		out.Kind = devsync.Denied
	case answer.Code == http.StatusConflict, answer.Code == http.StatusNotFound:
		out.Kind = devsync.Stale
		var detail struct{ Conflicts []syncwire.Conflict }
		if json.Unmarshal(answer.Body, &detail) == nil {
			out.Conflicts = detail.Conflicts
		}
	case answer.Code == http.StatusInternalServerError, answer.Code == http.StatusRequestTimeout:
		out.Kind = devsync.Unavailable
	}
	return out
}
