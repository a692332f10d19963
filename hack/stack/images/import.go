// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

// Importer brings archives into a node.
type Importer struct {
	// CTR is containerd's command-line client, Socket containerd's socket.
	CTR, Socket string
	// Record remembers which archive each image was last imported from.
	Record string
}

// Import brings in the archives that are not what the node already has. Keys
// are the images' names inside the node.
func (i Importer) Import(ctx context.Context, archives map[string]string) error {
	have := map[string]string{}
	data, err := os.ReadFile(i.Record)
	if err == nil {
		err = json.Unmarshal(data, &have)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what was imported: %w", err)
	}
	for ref, archive := range archives {
		wanted, err := version(archive)
		if err != nil {
			return err
		}
		if have[ref] == wanted {
			continue
		}
		err = progress.Step("image "+ref+" imported", func() error { return i.importOne(ctx, ref, archive) })
		if err != nil {
			return err
		}
		have[ref] = wanted
	}
	record, err := json.MarshalIndent(have, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding what was imported: %w", err)
	}
	return state.WriteFile(i.Record, record, 0o600)
}

func (i Importer) importOne(ctx context.Context, ref, archive string) error {
	name, err := ociimage.Name(archive)
	if err != nil {
		return err
	}
	if err := i.ctr(ctx, "images", "import", archive); err != nil {
		return err
	}
	// The archive carries a name of its own, which the caller may override.
	if name == ref {
		return nil
	}
	return i.ctr(ctx, "images", "tag", "--force", name, ref)
}

// version tells one content of an archive from another. The stack's own archives
// are named for their content; a person's may change under one name.
func version(archive string) (string, error) {
	info, err := os.Stat(archive)
	if err != nil {
		return "", fmt.Errorf("finding the archive: %w", err)
	}
	return fmt.Sprintf("%s %d %s", archive, info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), nil
}

func (i Importer) ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, i.CTR, append([]string{"--address", i.Socket, "--namespace", "k8s.io"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
