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

	// tokenAge is for how long tokens are taken without looking at their files, and tokenPause for
	// how long they are while somebody comes with another one. The kubelet writes a changed Secret
	// within a minute or two; what costs more than reading two small files must not be had
	// for a made-up name.
	tokenAge   = 10 * time.Second
	tokenPause = time.Second
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
	read    time.Time
}

func newTokens(source Tokens) *tokens { return &tokens{current: source, read: time.Now()} }

// now returns the tokens' keys, as their files have them or had them a moment ago.
func (t *tokens) now() []controlproof.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look(tokenPause)
	return t.current.keys
}

// having returns the keys, and looks first whether that of a name is there by now.
func (t *tokens) having(id string) []controlproof.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	age := tokenPause
	if slices.ContainsFunc(t.current.keys, func(k controlproof.Key) bool { return k.ID() == id }) {
		age = tokenAge // a token that was taken back ends then
	}
	t.look(age)
	return t.current.keys
}

// look reads the files again if that was done longer ago than age. A file that cannot be read, or
// holds no token, changes nothing: a Secret that is gone is made again, with the same token.
func (t *tokens) look(age time.Duration) {
	if t.current.file == "" || time.Since(t.read) < age {
		return
	}
	t.read = time.Now()
	if found, err := tokensIn(t.current.file); err == nil {
		t.current = found
	}
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
