// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// A person who names current/app/x means what the symlink current leads to, as with scp, kubectl cp and a pod's tar. A
// runner follows no symlink, so the path is followed here and the runner gets the one behind the symlinks: when an app
// puts a symlink into that one meanwhile, the copy is refused. Symlinks of the tree that is copied are never followed.

// maxFollowed bounds the symlinks of a path, as Linux does.
const maxFollowed = 40

// followed is a path of the sandbox behind the symlinks of the directory that it lies in.
func followed(ctx context.Context, remote devsync.Remote, name string) (string, error) {
	name = path.Clean(name)
	dir := path.Dir(name)
	if dir == "." {
		return name, nil
	}
	// A file that is not there costs less to ask for than what all of the workspace has.
	content, err := remote.Read(ctx, path.Join(dir, ".sandbar-cp-"+rand.Text()), 0, "")
	if err == nil {
		_ = content.Close()
	}
	if !isOnTheWay(err) {
		return name, nil // another failure is the copy's own as well
	}
	return follow(ctx, remote, name)
}

// isOnTheWay reports whether a runner refused a path for what a directory of it is.
func isOnTheWay(err error) bool {
	var refused *devsync.RemoteError
	return errors.As(err, &refused) && refused.Kind == devsync.Stale && strings.Contains(refused.Message, syncwire.ReasonOnTheWay)
}

// follow is followed for a path that has a symlink or a file on its way.
func follow(ctx context.Context, remote devsync.Remote, name string) (string, error) {
	listing, err := remote.List(ctx, nil, "")
	if err != nil {
		return "", err
	}
	f := follower{dirs: map[string]bool{".": true}, targets: map[string]string{}}
	for _, entry := range listing.Entries {
		if entry.Type == syncwire.Symlink {
			f.targets[entry.Path] = entry.Target
		}
		f.dirs[entry.Path] = entry.Type == syncwire.Dir
	}
	dir, err := f.follow(".", path.Dir(name))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(name)), nil
}

// follower follows the symlinks of a workspace.
type follower struct {
	dirs    map[string]bool
	targets map[string]string
	links   int // that were followed
}

// follow is what a path leads to from the directory at, which has no symlink on its way.
func (f *follower) follow(at, name string) (string, error) {
	for step := range strings.SplitSeq(name, "/") {
		next := path.Join(at, step)
		if next == ".." {
			return "", &onTheWayError{name, "leads out of the sandbox's files"}
		}
		target, isLink := f.targets[next]
		if !isLink {
			at = next
			continue
		}
		if path.IsAbs(target) {
			return "", &onTheWayError{next, fmt.Sprintf("is a symlink to %s, an absolute path: name the directory that it leads to", termsafe.Line(target))}
		}
		if f.links++; f.links > maxFollowed {
			return "", &onTheWayError{next, "is one symlink too many: name the directory that it leads to"}
		}
		behind, err := f.follow(at, target)
		if err != nil {
			return "", err
		}
		if !f.dirs[behind] {
			return "", &InTheWayError{Path: next, Reason: syncwire.ReasonOnTheWay}
		}
		at = behind
	}
	return at, nil
}

// onTheWayError ends a copy whose path has a symlink that is not followed.
type onTheWayError struct{ path, reason string }

// Error implements error.
func (e *onTheWayError) Error() string { return termsafe.Line(e.path) + " " + e.reason }
