// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandbar-dev/sandbar/client/devsync"
)

// putFile writes its input to a file, beside which it is collected and counted first. A symlink in its place is
// taken away: mv would move the file into the directory that one leads to.
const putFile = `set -e
mkdir -p "$(dirname "$1")"
t="$(dirname "$1")/.sandbar-cp.$$"
trap 'rm -f "$t"' EXIT
cat >"$t"
n=$(wc -c <"$t")
if [ "$n" -ne "$2" ]; then echo "$n of $2 bytes arrived" >&2; exit 1; fi
chmod "$3" "$t"
if [ -L "$1" ]; then rm -f "$1"; fi
mv -f "$t" "$1"`

// upload copies a file, or a directory with all below it, to a path of the pod.
func (p *podCopy) upload(ctx context.Context, source, destination string) error {
	if err := checkPodPath(destination); err != nil {
		return err
	}
	source, destination, info, err := whatToSend(source, destination)
	if err != nil {
		return fmt.Errorf("reading the source: %w", err)
	}
	up := podUp{podCopy: p, source: source, to: podPath(destination), progress: newProgress(p.notes, destination, -1)}
	if err = up.check(ctx); err == nil {
		err = up.byTar(ctx)
	}
	if errors.Is(err, errNoProgram) {
		if info.IsDir() {
			err = ErrNoTar
		} else if err = up.byCat(ctx, info); errors.Is(err, errNoProgram) {
			err = ErrNoTools
		}
	}
	up.progress.end()
	if err != nil {
		return fmt.Errorf("copying to %s: %w", destination, err)
	}
	return leftOut(up.left)
}

// podUp is a copy to a pod.
type podUp struct {
	*podCopy
	source, to string
	progress   *copyProgress
	left       int
	sent       int64
}

// byTar sends an archive. What it unpacks belongs to the user of the container, and not to an owner in the archive.
func (u *podUp) byTar(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	command, base := []string{"tar", "-xmof", "-"}, u.to
	if path.IsAbs(u.to) {
		// tar makes the directories on the way by itself, and so no shell has to.
		command, base = append(command, "-C", "/"), strings.TrimPrefix(u.to, "/")
	}
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := u.archive(writer, base)
		_ = writer.CloseWithError(err)
		written <- err
	}()
	err := u.run(ctx, command, reader, nil)
	_ = reader.CloseWithError(errTaken) // unblocks a writer whose reader is gone
	if failed := <-written; failed != nil && !errors.Is(failed, errTaken) {
		return failed
	}
	return err
}

// errTaken is what a writer gets when the program in the pod has ended.
var errTaken = errors.New("the program in the sandbox takes no more")

// archive writes the source as an archive in which it lies at base.
func (u *podUp) archive(to io.Writer, base string) error {
	u.left, u.sent = 0, 0
	out := tar.NewWriter(to)
	err := filepath.WalkDir(u.source, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			if full == u.source {
				return err
			}
			u.leaveOut(full, reasonOf(err))
			return nil
		}
		name, err := filepath.Rel(u.source, full)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			u.leaveOut(full, reasonOf(err))
			return nil
		}
		return u.add(out, full, filepath.ToSlash(name), base, info)
	})
	if err != nil {
		return err
	}
	return out.Close()
}

func (u *podUp) add(out *tar.Writer, full, name, base string, info fs.FileInfo) error {
	if reason := devsync.CheckForm(name); reason != "" && name != "." {
		u.leaveOut(full, reason)
		if !info.IsDir() {
			return nil
		}
		return fs.SkipDir
	}
	// Not PAX, of which the tar of busybox does not know the long names.
	header := &tar.Header{Name: path.Join(base, name), ModTime: info.ModTime().Truncate(1), Mode: 0o644, Format: tar.FormatGNU}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if header.Name == "" || header.Name == "." {
			return nil // it is there
		}
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, header.Name+"/", 0o755
		return out.WriteHeader(header)
	case fs.ModeSymlink:
		target, err := os.Readlink(full)
		if err != nil {
			u.leaveOut(full, reasonOf(err))
			return nil
		}
		target = filepath.ToSlash(target)
		if reason := devsync.CheckTarget(name, target); reason != "" {
			u.leaveOut(full, reason)
			return nil
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
		return out.WriteHeader(header)
	case 0:
		return u.addFile(out, full, header)
	default:
		u.leaveOut(full, "it is neither a file, a directory nor a symlink")
		return nil
	}
}

func (u *podUp) addFile(out *tar.Writer, full string, header *tar.Header) error {
	f, err := os.Open(full)
	if err != nil {
		u.leaveOut(full, reasonOf(err))
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		u.leaveOut(full, reasonOf(err))
		return nil
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if info.Mode()&0o100 != 0 {
		header.Mode = 0o755
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	// Exactly what the header says: of a file that grows, as it was; one that became shorter ends all.
	_, err = io.CopyN(io.MultiWriter(out, writerFunc(u.count)), f, header.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s became shorter while it was copied: try again", full)
	}
	return err
}

func (u *podUp) count(n int) {
	u.sent += int64(n)
	u.progress.at(u.sent)
}

func (u *podUp) leaveOut(name, reason string) {
	u.left++
	u.notes.send(LeftOut{Path: name, Reason: reason})
}

// writerFunc is told how much was written.
type writerFunc func(n int)

func (w writerFunc) Write(p []byte) (int, error) {
	w(len(p))
	return len(p), nil
}

// byCat sends one file.
func (u *podUp) byCat(ctx context.Context, info fs.FileInfo) error {
	f, err := os.Open(u.source)
	if err != nil {
		return err
	}
	defer f.Close()
	mode := "0644"
	if info.Mode()&0o100 != 0 {
		mode = "0755"
	}
	u.sent = 0
	content := io.TeeReader(io.LimitReader(f, info.Size()), writerFunc(u.count))
	return u.run(ctx, []string{"sh", "-c", putFile, "sh", u.to, strconv.FormatInt(info.Size(), 10), mode}, content, nil)
}
