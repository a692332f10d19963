// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/progress"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

// Built knows where the built parts are.
type Built map[string]string

// Bin returns the path of something that a part consists of.
func (b Built) Bin(part, name string) string { return filepath.Join(b[part], name) }

// Build builds what the cache does not have of the parts and returns where they
// are. Two builds of one part at the same time are one build: the second waits.
func Build(ctx context.Context, hack, cache string, parts []Part) (Built, error) {
	built := Built{}
	for _, p := range parts {
		dir, err := p.build(ctx, filepath.Join(hack, p.Module), cache)
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", p.Name, err)
		}
		built[p.Name] = dir
	}
	return built, nil
}

func (p Part) build(ctx context.Context, source, cache string) (string, error) {
	version, err := goVersion(ctx, p, source)
	if err != nil {
		return "", err
	}
	key, err := p.Key(source, version)
	if err != nil {
		return "", err
	}
	done := filepath.Join(cache, "bin", key)
	if _, err := os.Stat(done); err == nil {
		progress.Say("%-11s cached", p.Name)
		return done, nil
	}
	lock, err := state.Lock(filepath.Join(cache, "lock", p.Name), func() {
		progress.Say("%-11s is being built by another process; waiting", p.Name)
	})
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	if _, err := os.Stat(done); err == nil {
		progress.Say("%-11s built meanwhile", p.Name)
		return done, nil
	}
	if err := ensureBuildTools(ctx, p); err != nil {
		return "", err
	}
	began := time.Now()
	err = progress.Step(p.Name+" built", func() error { return p.buildInto(ctx, source, done) })
	if err != nil {
		return "", fmt.Errorf("after %s: %w", time.Since(began).Round(time.Second), err)
	}
	return done, nil
}

// buildInto builds into a folder beside the final one and renames it, so that a
// killed build never leaves a half-filled folder under the final name.
func (p Part) buildInto(ctx context.Context, source, done string) error {
	if err := os.MkdirAll(filepath.Dir(done), 0o755); err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	if p.prepare != nil {
		if err := p.prepare(ctx, source); err != nil {
			return err
		}
	}
	// Under the lock, so whatever has this name is a killed build's.
	temporary := filepath.Join(filepath.Dir(done), ".building-"+p.Name)
	if err := os.RemoveAll(temporary); err != nil {
		return fmt.Errorf("removing a killed build: %w", err)
	}
	if err := os.Mkdir(temporary, 0o755); err != nil {
		return fmt.Errorf("creating the cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if len(p.Packages) > 0 {
		version, err := p.reportedVersion(ctx, source)
		if err != nil {
			return err
		}
		if _, err := p.goRun(ctx, source, p.goBuildArgs(temporary, version)...); err != nil {
			return err
		}
	}
	for _, link := range p.Links {
		if err := os.Symlink(p.Name, filepath.Join(temporary, link)); err != nil {
			return fmt.Errorf("linking %s: %w", link, err)
		}
	}
	if err := p.copyFolders(ctx, source, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, done)
}

func (p Part) copyFolders(ctx context.Context, source, into string) error {
	for from, to := range p.CopyFrom {
		module, folder := splitFolder(from)
		dir, err := p.moduleDir(ctx, source, module)
		if err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(into, to), os.DirFS(filepath.Join(dir, folder))); err != nil {
			return fmt.Errorf("copying %s: %w", from, err)
		}
	}
	return nil
}

// patchFramework gives kcp a copy of its virtual-workspace framework with the
// one function that this version of kcp calls and the newest framework that can
// be had lacks. Go allows no overlay below the module cache, so the module is
// copied to where hack/kcp/go.mod's replace points.
func patchFramework(ctx context.Context, dir string) error {
	const module = "github.com/kcp-dev/virtual-workspace-framework@v0.31.2"
	copied := filepath.Join(dir, ".work", "vwf")
	if _, err := os.Stat(filepath.Join(copied, "pkg", "forwardingregistry", "validation.go")); err == nil {
		return nil
	}
	if err := os.RemoveAll(copied); err != nil {
		return fmt.Errorf("removing a killed copy: %w", err)
	}
	// From outside the module: its go.mod has a replace that points to the copy
	// which is still to be made.
	p := Part{Name: "kcp"}
	listed, err := p.goRun(ctx, os.TempDir(), "mod", "download", "-json", module)
	if err != nil {
		return err
	}
	from, err := downloadedDir(listed)
	if err != nil {
		return err
	}
	if err := os.CopyFS(copied, os.DirFS(from)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("copying the framework: %w", err)
	}
	patch, err := os.ReadFile(filepath.Join(dir, "validation.go.txt"))
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	return state.WriteFile(filepath.Join(copied, "pkg", "forwardingregistry", "validation.go"), patch, 0o644)
}
