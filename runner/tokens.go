// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/controlproof"
)

const (
	// previousFile is beside the token's file and holds the token before it, during a rotation.
	previousFile = "previous"

	// tokenAge is for how long tokens are taken without reading their files if those seem unchanged. It is the net
	// below the look at the file's inode and time, which a file system may not tell.
	tokenAge = 10 * time.Second
)

// Tokens is where the control tokens are. Its zero value is none.
type Tokens struct {
	// file is the file with the token; empty if that came from the environment.
	file string
	keys []controlproof.Key
}

// Equal reports whether two sources are the same and hold the same tokens.
func (t Tokens) Equal(other Tokens) bool {
	return t.file == other.file && slices.EqualFunc(t.keys, other.keys, controlproof.Key.Equal)
}

// tokenOf takes the one token of the environment.
func tokenOf(token string) (Tokens, error) {
	key, err := newKey(token)
	if err != nil {
		return Tokens{}, err
	}
	return Tokens{keys: []controlproof.Key{key}}, nil
}

// tokensIn reads the token from a file, and the former one from the file beside it, if there is
// one. A former one of another form counts as none.
func tokensIn(file string) (Tokens, error) {
	current, err := readKey(file)
	if err != nil {
		return Tokens{}, err
	}
	t := Tokens{file: file, keys: []controlproof.Key{current}}
	if former, err := readKey(filepath.Join(filepath.Dir(file), previousFile)); err == nil && !former.Equal(current) {
		t.keys = append(t.keys, former)
	}
	return t, nil
}

func readKey(file string) (controlproof.Key, error) {
	f, err := os.Open(file)
	if err != nil {
		return controlproof.Key{}, fmt.Errorf("opening the control token: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile)) //nolint:forbidigo // maxTokenFile
	if err != nil {
		return controlproof.Key{}, fmt.Errorf("reading the control token: %w", err)
	}
	return newKey(strings.TrimRight(string(text), "\r\n"))
}

// tokens are the control tokens that are good now. The Secret that they come from may change while
// the runner runs, and the app must not be started again for that.
type tokens struct {
	mu      sync.Mutex
	current Tokens
	// read is when the files were read, stamp what the token's file was then; nil if there was none.
	read  time.Time
	stamp fs.FileInfo
}

func newTokens(source Tokens) *tokens { return &tokens{current: source} }

// now returns the tokens' keys, as their files have them. A Secret that the kubelet has brought counts with the next
// request: a data plane that was started after the former token was taken away knows none but the new one.
//
// Each request costs a stat; what costs more must not be had for a made-up name, so the files are read only if they
// have changed, or are tokenAge old.
func (t *tokens) now() []controlproof.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.file == "" {
		return t.current.keys
	}
	is, err := os.Stat(t.current.file)
	if err == nil && t.stamp != nil && sameFile(is, t.stamp) && time.Since(t.read) < tokenAge {
		return t.current.keys
	}
	// A file that cannot be read, or holds no token, changes nothing: a Secret that is gone is made again, with the
	// same token.
	t.read, t.stamp = time.Now(), is
	if found, err := tokensIn(t.current.file); err == nil {
		t.current = found
	}
	return t.current.keys
}

// sameFile reports whether a file was neither replaced, as the kubelet does it, nor written.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// readTokens takes the token from the file, if one is named, else from the environment.
func readTokens(env map[string]string) (Tokens, error) {
	name, read, from := envToken, tokenOf, env[envToken]
	if file := env[envTokenFile]; file != "" {
		name, read, from = envTokenFile, tokensIn, file
	}
	found, err := read(from)
	var missing *fs.PathError
	if errors.As(err, &missing) {
		return Tokens{}, fmt.Errorf("reading %s: %w", name, err)
	}
	if err != nil {
		return Tokens{}, fmt.Errorf("%s: %w", name, err)
	}
	return found, nil
}
