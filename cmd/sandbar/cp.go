// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/runner/syncwire"
)

func newCopyCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files and directories to or from a sandbox; the sandbox's side is NAME:PATH",
		Long: `Copy a file, or a directory with all below it, to or from a sandbox, over what is there. The
sandbox's side is NAME:PATH, with PATH relative to the sandbox's files; NAME: is all of them.
A DESTINATION that ends in "/", or is a directory here, gets a file or directory of the source's
name, and "-" is stdout. Executable bits and symlinks that stay inside are copied; other symlinks
and devices, and a .git that a sandbox offers, are left out and named, and the exit code is 1
then. Nothing is deleted, and nothing ignored: to keep both sides alike there is sandbar sync.`,
		Args: named("SOURCE", "DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, source, down := strings.Cut(args[0], ":")
			to, destination, up := strings.Cut(args[1], ":")
			if up == down {
				return &usageError{errors.New("one of SOURCE and DESTINATION is NAME:PATH, and the other a file here")}
			}
			if up {
				i, err := s.instance(cmd.Context(), to)
				if err != nil {
					return err
				}
				return upload(cmd.Context(), i.Workspace(), args[0], destination, cmd.ErrOrStderr())
			}
			i, err := s.instance(cmd.Context(), from)
			if err != nil {
				return err
			}
			return download(cmd.Context(), i.Workspace(), source, args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// download writes beside the destination and renames, so that a connection that breaks leaves
// what was there.
func download(ctx context.Context, remote devsync.Remote, source, destination string, stdout, notes io.Writer) error {
	source = strings.TrimRight(source, "/") // as a shell completes a directory
	name := path.Base(path.Clean("/" + source))
	into := func() string {
		info, err := os.Stat(destination)
		if name != "/" && (strings.HasSuffix(destination, "/") || err == nil && info.IsDir()) {
			return filepath.Join(destination, name)
		}
		return destination
	}
	if strings.ContainsRune(name, filepath.Separator) && name != "/" {
		return &usageError{fmt.Errorf("%q is no path of a file", source)}
	}
	if name == "/" {
		return downloadTree(ctx, remote, "", destination, notes)
	}
	content, err := remote.Read(ctx, source)
	var refused *devsync.RemoteError
	if errors.As(err, &refused) && refused.Kind == devsync.Stale && destination != "-" && isDirectory(ctx, remote, source) {
		return downloadTree(ctx, remote, source, into(), notes)
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	defer content.Close()
	if destination == "-" {
		if _, err := io.Copy(stdout, content); err != nil {
			return fmt.Errorf("copying %s: %w", source, err)
		}
		return nil
	}
	destination = into()
	temp, err := os.CreateTemp(filepath.Dir(destination), ".sandbar-cp-*")
	if err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = io.Copy(temp, content)
	if err = errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	if err := os.Rename(temp.Name(), destination); err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	return nil
}

// isDirectory tells whether a path of the sandbox is a directory.
func isDirectory(ctx context.Context, remote devsync.Remote, source string) bool {
	source = strings.Trim(path.Clean("/"+source), "/")
	listing, err := remote.List(ctx, nil, "")
	return err == nil && slices.ContainsFunc(listing.Entries, func(e syncwire.Entry) bool {
		return e.Path == source && e.Type == syncwire.Dir
	})
}
