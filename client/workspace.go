// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

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
	"strconv"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
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
	call := Request{Verb: "files", Query: url.Values{syncwire.ParamExclude: exclude}}
	if known != "" {
		call.Header = http.Header{"If-None-Match": {known}}
	}
	res, err := w.instance.ask(ctx, call)
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
	listing := &devsync.Listing{Skipped: head.Skipped}
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
	res, err := w.instance.ask(ctx, Request{Verb: "changes", Query: url.Values{syncwire.ParamExclude: exclude}})
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
func (w workspace) Read(ctx context.Context, path string, offset int64, tag string) (*devsync.Content, error) {
	call := Request{Verb: "files", Tail: path}
	if offset > 0 {
		call.Header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", offset)}, "If-Range": {strconv.Quote(tag)}}
	}
	res, err := w.instance.ask(ctx, call)
	var answer *CallError
	if errors.As(err, &answer) && answer.Code == http.StatusRequestedRangeNotSatisfiable {
		return nil, errOtherVersion
	}
	if err != nil {
		return nil, remoteError(ctx, err)
	}
	out := &devsync.Content{
		ReadCloser: content{res.Body, ctx}, Tag: strings.Trim(res.Header.Get("Etag"), `"`), Size: res.ContentLength,
		Executable: res.Header.Get(syncwire.ExecutableHeader) == "true",
	}
	if offset > 0 {
		if res.StatusCode != http.StatusPartialContent || !strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)) {
			_ = res.Body.Close()
			return nil, errOtherVersion
		}
		out.Size = -1
	}
	return out, nil
}

// errOtherVersion is the answer to a read that was to go on, of a file that is another one now.
var errOtherVersion = &devsync.RemoteError{Kind: devsync.Stale, Message: devsync.ErrChanged.Error(), Err: devsync.ErrChanged}

// Staged implements devsync.Remote.
func (w workspace) Staged(ctx context.Context, digest string) (int64, error) {
	res, err := w.instance.ask(ctx, Request{Verb: "files", Query: url.Values{syncwire.ParamStaged: {digest}}})
	if err != nil {
		return 0, remoteError(ctx, err)
	}
	defer res.Body.Close()
	var staged syncwire.Staged
	if err := json.NewDecoder(res.Body).Decode(&staged); err != nil {
		return 0, remoteError(ctx, fmt.Errorf("reading what is staged: %w", err))
	}
	if staged.Digest != digest {
		// A runner from before that sends a listing, whose digest is another.
		return 0, &devsync.RemoteError{
			Kind:    devsync.Refused,
			Message: "the file is too large for one request, and the sandbox's runner is too old to take it in several: suspend and resume the sandbox, or ask its operator for a newer runner",
		}
	}
	return staged.Offset, nil
}

// Stage implements devsync.Remote.
func (w workspace) Stage(ctx context.Context, write func(*syncwire.Encoder) error) (int64, error) {
	var reply syncwire.Reply
	if err := w.post(ctx, syncwire.RestartNever, write, &reply); err != nil {
		return 0, err
	}
	if reply.Staged == nil {
		return 0, remoteError(ctx, errors.New("the sandbox does not say what it staged"))
	}
	return reply.Staged.Offset, nil
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
	err := w.instance.DoJSON(ctx, Request{Verb: "files", Tail: path, Query: url.Values{syncwire.ParamChunks: {"true"}}}, nil, chunks)
	if err != nil {
		return nil, remoteError(ctx, err)
	}
	return chunks, nil
}

// Apply implements devsync.Remote.
func (w workspace) Apply(ctx context.Context, restart string, write func(*syncwire.Encoder) error) (*devsync.Applied, error) {
	var reply syncwire.Reply
	if err := w.post(ctx, restart, write, &reply); err != nil {
		return nil, err
	}
	applied := &devsync.Applied{Revision: reply.Revision, Restarted: reply.Restarted}
	if reply.RestartError != nil {
		applied.RestartError = reply.RestartError.Message
	}
	return applied, nil
}

// post sends the frames that write makes while it makes them.
func (w workspace) post(ctx context.Context, restart string, write func(*syncwire.Encoder) error, reply *syncwire.Reply) error {
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
	err := w.send(ctx, reader, reply)
	_ = reader.CloseWithError(errAnswered) // unblocks a writer whose reader is gone
	if failed := <-wrote; failed != nil && !errors.Is(failed, errAnswered) && !errors.Is(failed, io.ErrClosedPipe) && ctx.Err() == nil {
		return failed // what was sent was cut off, so nothing was applied
	}
	if err != nil {
		return remoteError(ctx, err)
	}
	return nil
}

// errAnswered is what a writer gets when the answer came before it was done.
var errAnswered = errors.New("the answer came before the end of the batch")

func (w workspace) send(ctx context.Context, body io.Reader, reply *syncwire.Reply) error {
	res, err := w.instance.ask(ctx, Request{
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
		out.Message, out.RetryAfter, out.Suspended = answer.Message, answer.RetryAfter, answer.Suspended()
	}
	switch {
	case Temporary(err):
		out.Kind = devsync.Unavailable
	case answer != nil && answer.Code == http.StatusRequestEntityTooLarge:
		// Whoever says it: less at once may be taken, and a file that is too large by itself is
		// the only one that is refused.
		out.TooLarge = !answer.Sandbox || answer.Reason == syncwire.CodeRequestTooLarge || answer.Reason == syncwire.CodeBatchTooLarge
	case answer == nil, answer.Code == http.StatusUnauthorized, answer.Code == http.StatusForbidden, !answer.Sandbox:
		out.Kind = devsync.Denied
	case answer.Reason == syncwire.CodeOffsetMismatch:
		out.Kind = devsync.Unavailable // an earlier connection is not quite over
	case answer.Code == http.StatusConflict, answer.Code == http.StatusNotFound:
		out.Kind = devsync.Stale
		var detail syncwire.Error
		if json.Unmarshal(answer.Body, &detail) == nil {
			out.Conflicts = detail.Conflicts
		}
	case answer.Code == http.StatusInternalServerError, answer.Code == http.StatusRequestTimeout:
		out.Kind = devsync.Unavailable
	}
	return out
}
