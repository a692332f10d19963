// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

func newCopyCommand(s *target) *cobra.Command {
	container := ""
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files and directories to or from a sandbox; the sandbox's side is [KIND/]NAME:PATH",
		Long: `Copy a file, or a directory with all below it, to or from a sandbox, over what is there. The
sandbox's side is NAME:PATH or KIND/NAME:PATH, with PATH relative to the sandbox's files; NAME: is all
of them. A file here whose name has a colon is written from the directory on, as in ./a:b.
A DESTINATION that ends in "/", or is a directory here, gets a file or directory of the source's
name, and "-" is stdout; what goes to a device or a FIFO is written into it. Executable bits and
symlinks that stay inside are copied; other symlinks and devices, and a .git that a sandbox offers,
are left out and named, and the exit code is 1 then. A file keeps the other rights of the one that
it replaces, and a new one has those of your umask. Nothing is deleted, and nothing ignored: to keep both sides alike there is sandbar sync.

Files may have any size. A lost connection is made again, and a copy of a large file that was
interrupted goes on where it was when the same command is run again.

In a pod without a runner, as a Sandbox of any image is, PATH may be absolute; else it is relative
to the container's working directory. Files travel by the tar of the image, single files also by its
sh and cat. --container names one of several containers.`,
		Args: cli.Named("SOURCE", "DESTINATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, source, down := inSandbox(args[0])
			to, destination, up := inSandbox(args[1])
			if up == down {
				return &cli.UsageError{Err: errors.New("one of SOURCE and DESTINATION is NAME:PATH or KIND/NAME:PATH, and the other a file here; write ./FILE for one whose name has a colon")}
			}
			name, here := to, args[0]
			if down {
				name, here = from, args[1]
			}
			i, err := s.Instance(cmd.Context(), name, "exec")
			if err != nil {
				return err
			}
			c := session.Copy{Instance: i, Container: container, Stdout: cmd.OutOrStdout(), Notes: cli.PrintNotes(cmd.ErrOrStderr())}
			if up {
				return c.Upload(cmd.Context(), here, destination)
			}
			return c.Download(cmd.Context(), source, here)
		},
	}
	cmd.Flags().StringVarP(&container, "container", "c", "", "container of a pod without a runner; its first if empty")
	return cmd
}

// kindAndName is KIND/NAME. A path that begins with ./, ../ or / is not.
var kindAndName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]*/[^/]*$`)

// inSandbox reads NAME:PATH or KIND/NAME:PATH; ok is false for a file of this machine. Another slash before the colon makes
// it one, as with scp.
func inSandbox(arg string) (name, path string, ok bool) {
	name, path, ok = strings.Cut(arg, ":")
	if strings.ContainsRune(name, '/') && !kindAndName.MatchString(name) || filepath.VolumeName(arg) != "" {
		return "", "", false
	}
	return name, path, ok
}
