// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

const (
	// keptBytes is from what size on the beginning of a file that could not be received whole is
	// kept, so that receiving it again goes on from there; keptFor is how long a sync keeps it.
	keptBytes = 8 << 20
	keptFor   = 24 * time.Hour
	keptEnd   = ".part"
)

// ErrChanged means that a file changed while it was received. The bytes that arrived are dropped: half of
// one file and half of another are of no use.
var ErrChanged = errors.New("it changed while it was received: try again")

// Download receives a file of a workspace, over as many requests as it takes.
type Download struct {
	Remote Remote
	Path   string
	// Size and Digest are what is expected; without a digest the size alone is checked, and that all
	// of it is of one version.
	Size   int64
	Digest string
	// OnProgress is told how much there is; nil for nobody.
	OnProgress func(done int64)
	// Resumed is how much was there before.
	Resumed int64

	tag  string
	done int64
	sum  hash.Hash
}

// Into receives the file into one below root, in the directory dir, and returns its name there,
// which the caller renames. When it fails, the beginning of a large file stays for the next time.
func (d *Download) Into(ctx context.Context, root *os.Root, dir string, mode fs.FileMode) (string, error) {
	f, name, err := d.open(root, dir)
	if err != nil {
		return "", err
	}
	err = d.To(ctx, f)
	kept := d.kept() && strings.HasSuffix(name, keptEnd) && !errors.Is(err, ErrChanged) && d.done > 0
	if err == nil {
		err = f.Chmod(mode)
	}
	err = errors.Join(err, f.Close())
	if err != nil && !kept {
		_ = root.Remove(name)
	}
	return name, err
}

// kept reports whether the beginning of the file is worth keeping, and can be verified later.
func (d *Download) kept() bool { return d.Size >= keptBytes && syncwire.ValidDigest(d.Digest) }

// open opens the file that Into writes to. What an earlier run left is taken up unless another process
// is at it. It is opened as what it is: something else in its place is not written through.
func (d *Download) open(root *os.Root, dir string) (*os.File, string, error) {
	if d.kept() {
		name := path.Join(dir, incoming+d.Digest[:32]+keptEnd)
		f, err := root.OpenFile(name, os.O_CREATE|os.O_RDWR|openFlags, 0o600)
		if err == nil {
			if d.resume(root, name, f) == nil {
				return f, name, nil
			}
			_ = f.Close()
		}
	}
	name := path.Join(dir, incoming+rand.Text())
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	return f, name, err
}

// resume takes up what a file has.
func (d *Download) resume(root *os.Root, name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(info, there) {
		return errors.Join(err, errNotRegular)
	}
	if err := lock(f); err != nil {
		return err
	}
	if info.Size() > d.Size {
		return f.Truncate(0)
	}
	d.sum = sha256.New()
	d.done, err = io.Copy(d.sum, struct{ io.Reader }{f})
	d.Resumed = d.done
	return err
}

// To writes the file to out, behind what was there before. A connection that breaks is made again.
func (d *Download) To(ctx context.Context, out io.Writer) error {
	if d.sum == nil {
		d.sum = sha256.New()
	}
	if d.tag == "" {
		d.tag = d.Digest
	}
	for tries, wait := 1, firstPause; d.done < d.Size || d.Size == 0; tries, wait = tries+1, wait*2 {
		before := d.done
		err := d.try(ctx, out)
		if err == nil {
			break
		}
		if d.done > before {
			tries, wait = 1, firstPause
		}
		if !unavailable(err) || tries >= onceTries || ctx.Err() != nil {
			return err
		}
		if err := pause.For(ctx, max(wait, retryAfter(err))); err != nil {
			return err
		}
	}
	if d.done != d.Size || d.Digest != "" && hex.EncodeToString(d.sum.Sum(nil)) != d.Digest {
		return ErrChanged
	}
	return nil
}

func (d *Download) try(ctx context.Context, out io.Writer) error {
	content, err := d.Remote.Read(ctx, d.Path, d.done, d.tag)
	if err != nil {
		return err
	}
	defer content.Close()
	d.tag = content.Tag
	// One byte more than expected is enough to see that the file is another one, and a sandbox cannot
	// fill the disk with one that does not end.
	_, err = io.Copy(io.MultiWriter(out, d.sum, progress{d}), io.LimitReader(content, d.Size-d.done+1))
	return err
}

// progress counts what was received.
type progress struct{ of *Download }

func (p progress) Write(b []byte) (int, error) {
	p.of.done += int64(len(b))
	if p.of.OnProgress != nil {
		p.of.OnProgress(p.of.done)
	}
	return len(b), nil
}

// isKept reports whether a file is the beginning of one that may be received to its end.
func isKept(entry fs.DirEntry) bool {
	info, err := entry.Info()
	return strings.HasSuffix(entry.Name(), keptEnd) && err == nil && time.Since(info.ModTime()) < keptFor
}
