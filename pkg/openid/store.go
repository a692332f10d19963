// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gofrs/flock"
)

const (
	// lockInterval is how often a process looks whether another one has let go of a login.
	lockInterval = 50 * time.Millisecond
	// lockTimeout bounds the wait: a refresh takes at most three exchanges.
	lockTimeout = 3*exchangeTimeout + 5*time.Second
	// maxLogin bounds the file of a login.
	maxLogin = 4 << 20
)

// Login is a login that was kept.
type Login struct {
	Config
	Tokens Tokens `json:"tokens"`
}

// Store keeps logins in files of a folder that only the person can read, each under a random name. It is keyed by that name
// and not by the issuer or by a context of a kubeconfig, so that two kubeconfigs with one context name do not share a login.
type Store struct {
	// Dir is the folder. It does not have to exist.
	Dir string
}

// NoLoginError means that there is no login of a name.
type NoLoginError struct{ Name string }

// Error implements error.
func (e *NoLoginError) Error() string { return "there is no login " + e.Name + " on this machine" }

// names are those of logins; others could lead out of the folder.
var names = regexp.MustCompile("^[A-Z2-7]{20,40}$")

func (s Store) path(name string) (string, error) {
	if !names.MatchString(name) {
		return "", fmt.Errorf("%q is not the name of a login", name)
	}
	return filepath.Join(s.Dir, name+".json"), nil
}

// Load reads a login; the error is a *[NoLoginError] if there is none.
func (s Store) Load(name string) (Login, error) {
	path, err := s.path(name)
	if err != nil {
		return Login{}, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Login{}, &NoLoginError{name}
	}
	if err == nil && info.Size() > maxLogin {
		return Login{}, fmt.Errorf("reading the login: %s has more than %d bytes", path, maxLogin)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return Login{}, fmt.Errorf("reading the login: %w", err)
	}
	var login Login
	if err := json.Unmarshal(content, &login); err != nil {
		return Login{}, fmt.Errorf("reading the login in %s: %w", path, err)
	}
	return login, nil
}

// Save writes a login. The file is replaced as a whole: a crash leaves the old one.
func (s Store) Save(name string, login Login) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	content, err := json.Marshal(login)
	if err != nil {
		return fmt.Errorf("encoding the login: %w", err)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of logins: %w", err)
	}
	temp, err := os.CreateTemp(s.Dir, ".login-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("writing the login: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("writing the login: %w", err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("writing the login: %w", err)
	}
	return nil
}

// remove deletes the files of a login. A process that waits for its lock finds none afterwards.
func (s Store) remove(name string) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing the login: %w", err)
	}
	_ = os.Remove(path + ".lock") // Windows keeps it as long as it is open, and it is empty
	return nil
}

// lock keeps other processes from a login until unlock is called. A refresh token is good for one use: two processes that
// refresh at the same moment would end the login, and some issuers take it for theft.
func (s Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	path, err := s.path(name)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of logins: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	file := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := file.TryLockContext(limited, lockInterval); err != nil {
		if ctx.Err() == nil && limited.Err() != nil {
			err = fmt.Errorf("another process has kept it for %s", lockTimeout)
		}
		return nil, fmt.Errorf("waiting for the login: %w", err)
	}
	return func() { _ = file.Unlock() }, nil
}
