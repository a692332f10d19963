// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package devsync_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// A program that edits files for a sandbox embeds an Engine. With a sandbox, Remote is
// (*client.Instance).Workspace(), and ID its ID(); here it is one that prints what would be sent.
func Example() {
	project, err := os.MkdirTemp("", "project")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(project)
	if err := os.WriteFile(filepath.Join(project, "index.html"), []byte("<h1>hello</h1>\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	engine, err := devsync.Open(devsync.Options{
		Dir: project, Remote: printer{}, ID: "the instance's UID", StateDir: filepath.Join(project, ".git"), // git's own is never synced
		OnEvent: func(e devsync.Event) {
			if e.Type == devsync.EventFile {
				fmt.Println(e.Path, e.State)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	report, err := engine.Sync(context.Background()) // or Watch, until the context ends
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Sent, "sent,", len(report.Conflicts), "conflicts")
	// Output:
	// index.html pending
	// index.html sending
	// file index.html of 15 bytes
	// index.html applied
	// 1 sent, 0 conflicts
}

// printer is an empty workspace that takes every batch.
type printer struct{ devsync.Remote }

func (printer) List(context.Context, []string, string) (*devsync.Listing, error) {
	return &devsync.Listing{}, nil
}

func (printer) Apply(_ context.Context, _ string, write func(*syncwire.Encoder) error) (*devsync.Applied, error) {
	var body bytes.Buffer
	if err := write(syncwire.NewEncoder(&body, nil, "")); err != nil {
		return nil, err
	}
	for d := syncwire.NewDecoder(&body); ; {
		frame, err := d.Next()
		switch {
		case errors.Is(err, io.EOF):
			return &devsync.Applied{}, nil
		case err != nil:
			return nil, err
		case frame.Op == syncwire.OpFile:
			fmt.Println(frame.Op, frame.Path, "of", frame.Size, "bytes")
		}
	}
}
