// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/runner/syncwire"
)

// copyPiece is how much of a file one frame carries.
const copyPiece = 256 << 10

func newCopyCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy a file to or from a sandbox; the sandbox's side is NAME:PATH",
		Long: `Copy one file to or from a sandbox, over what is there. The sandbox's side is NAME:PATH, with
PATH relative to the sandbox's files. A DESTINATION that ends in "/" or is a directory gets a file
of the source's name, and "-" is stdout. For directories there is sandbar sync.`,
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
				return upload(cmd.Context(), i, args[0], destination)
			}
			i, err := s.instance(cmd.Context(), from)
			if err != nil {
				return err
			}
			return download(cmd.Context(), i, source, args[1], cmd.OutOrStdout())
		},
	}
}

func upload(ctx context.Context, i *client.Instance, source, destination string) error {
	f, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file; for directories there is sandbar sync", source)
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	if destination == "" || strings.HasSuffix(destination, "/") {
		destination = path.Join(destination, filepath.Base(source))
	}
	executable := info.Mode()&0o100 != 0
	_, err = i.Workspace().Apply(ctx, "", func(out *syncwire.Encoder) error {
		frame := syncwire.Frame{Op: syncwire.OpFile, Path: destination, Size: size, Digest: hex.EncodeToString(sum.Sum(nil)), Executable: &executable}
		if err := out.Entry(frame); err != nil {
			return err
		}
		pieces := io.NewSectionReader(f, 0, size)
		for buffer := make([]byte, copyPiece); ; {
			n, err := pieces.Read(buffer)
			if err := out.Data(buffer[:n]); err != nil {
				return err
			}
			if errors.Is(err, io.EOF) {
				return out.End()
			}
			if err != nil {
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("copying to %s: %w", destination, err)
	}
	return nil
}

// download writes beside the destination and renames, so that a connection that breaks leaves
// what was there.
func download(ctx context.Context, i *client.Instance, source, destination string, stdout io.Writer) error {
	content, err := i.Workspace().Read(ctx, source)
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
	if info, err := os.Stat(destination); strings.HasSuffix(destination, "/") || err == nil && info.IsDir() {
		name := path.Base(path.Clean("/" + source))
		if name == "/" || strings.ContainsRune(name, filepath.Separator) {
			return &usageError{fmt.Errorf("%q is no path of a file", source)}
		}
		destination = filepath.Join(destination, name)
	}
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
