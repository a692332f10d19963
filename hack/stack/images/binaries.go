// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
)

// unprivileged is the user that every image runs as.
const unprivileged = 1000

var runAsUnprivileged = fmt.Sprintf("%d:%d", unprivileged, unprivileged)

// partImage is the image of a static binary that package parts has built.
func partImage(part, binary string, onDemand bool) recipe {
	return recipe{
		config:   ociimage.Config{Entrypoint: []string{"/" + binary}, User: runAsUnprivileged},
		onDemand: onDemand,
		part:     part,
		key: func(_ context.Context, b *Builder) (string, error) {
			return fileHash(b.Parts.Bin(part, binary))
		},
		write: func(_ context.Context, b *Builder, w *ociimage.LayerWriter) error {
			return w.File(binary, b.Parts.Bin(part, binary), 0o755)
		},
	}
}

// commandImage is the image of one of Sandbar's own commands. Go's build cache
// is what makes it quick; the image is made anew only when the binary changed.
func commandImage(name string, onDemand bool) recipe {
	binary := func(b *Builder) string { return filepath.Join(b.Cache, "commands", name) }
	return recipe{
		config:   ociimage.Config{Entrypoint: []string{"/" + name}, User: runAsUnprivileged},
		onDemand: onDemand,
		key: func(ctx context.Context, b *Builder) (string, error) {
			if err := compile(ctx, b.Root, name, binary(b)); err != nil {
				return "", err
			}
			return fileHash(binary(b))
		},
		write: func(_ context.Context, b *Builder, w *ociimage.LayerWriter) error {
			return w.File(name, binary(b), 0o755)
		},
	}
}

func compile(ctx context.Context, root, name, out string) error {
	if _, err := os.Stat(filepath.Join(root, "cmd", name)); err != nil {
		return errAbsent
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./cmd/"+name)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", name, err, output)
	}
	return nil
}
