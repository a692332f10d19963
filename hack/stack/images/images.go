// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package images makes the container images that a stack needs, as OCI archives
// in the cache: Sandbar's own binaries, the two programs every cluster needs,
// and sample workloads from Debian packages. Nothing comes from a registry.
// An archive is named for its content's key and made only once.
package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

// Ref is the name of an image inside the node.
func Ref(name string) string { return "localhost/sandbar/" + name + ":dev" }

// Builder makes images into the cache.
type Builder struct {
	// Root is the checkout, Cache the folder that outlives it.
	Root, Cache string
	Parts       parts.Built
}

// errAbsent says that the source of an image is not in this checkout.
var errAbsent = errors.New("its source is not in this checkout")

// recipe makes one image. Key names what goes in; write puts it into a layer.
type recipe struct {
	// base names the image whose layers and environment this one is put upon; empty for none.
	base   string
	config ociimage.Config
	key    func(ctx context.Context, b *Builder) (string, error)
	write  func(ctx context.Context, b *Builder, w *ociimage.LayerWriter) error
	// onDemand keeps the image out of what a stack starts with.
	onDemand bool
	// part is what package parts must have built; empty for nothing.
	part string
}

var recipes = map[string]recipe{
	"pause":   partImage("pause", "pause", false),
	"coredns": partImage("coredns", "coredns", false),
	// On demand: the Gateway API controller of stack gateway.
	"traefik": partImage("traefik", "traefik", true),
	"runner":  commandImage("sandbar-runner", false),
	// On demand: on one machine the provider runs on the host, beside kcp.
	"provider": commandImage("sandbar-provider", true),
	// What stands in front of a Service of a Baseline.
	"proxy":            commandImage("sandbar-proxy", false),
	"toolchain-go":     toolchainGo(),
	"toolchain-node":   toolchainNode(),
	"toolchain-python": toolchainPython(),
	// On demand: for operators.
	"toolchain-node-plain": toolchainNodePlain(),
	"redis":                redis(),
	"postgres":             postgres(),
	"web-app-web":          component("web", "toolchain-node", "node", "server.mjs"),
	"web-app-api":          component("api", "toolchain-python", "python3", "server.py"),
}

// Names returns the names of all images, or of those that a stack starts with.
func Names(all bool) []string {
	var names []string
	for name, r := range recipes {
		if all || !r.onDemand {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// Parts returns the names of the parts that images are made of.
func Parts(names []string) []string {
	var needed []string
	for _, name := range names {
		if part := recipes[name].part; part != "" {
			needed = append(needed, part)
		}
	}
	return needed
}

// Build makes the images that the cache does not have and returns their
// archives by name. An image whose source is not in the checkout is left out
// when optional, and an error otherwise.
func (b *Builder) Build(ctx context.Context, names []string, optional bool) (map[string]string, error) {
	archives := map[string]string{}
	for _, name := range names {
		r, ok := recipes[name]
		if !ok {
			return nil, fmt.Errorf("there is no image %q (there are %s)", name, strings.Join(Names(true), ", "))
		}
		archive, err := b.build(ctx, name, r)
		if optional && errors.Is(err, errAbsent) {
			progress.Say("image %s left out: %v", name, errAbsent)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		archives[name] = archive
	}
	return archives, nil
}

func (b *Builder) build(ctx context.Context, name string, r recipe) (string, error) {
	lock, err := state.Lock(filepath.Join(b.Cache, "lock", "image-"+name), func() {
		progress.Say("image %s is being built by another process; waiting", name)
	})
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	content, err := r.key(ctx, b)
	if err != nil {
		return "", err
	}
	base := ""
	if r.base != "" {
		if base, err = b.build(ctx, r.base, recipes[r.base]); err != nil {
			return "", err
		}
		content += " on " + filepath.Base(base)
		r.config.Env = recipes[r.base].config.Env
	}
	archive := filepath.Join(b.Cache, "images", name+"-"+hashOf(content, fmt.Sprintf("%+v", r.config))+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	return archive, progress.Step("image "+name+" built", func() error {
		dir := filepath.Join(b.Cache, "images")
		w, err := ociimage.NewLayer(dir)
		if err != nil {
			return err
		}
		defer w.Remove()
		if err := r.write(ctx, b, w); err != nil {
			return err
		}
		layer, err := w.Finish()
		if err != nil {
			return err
		}
		if base == "" {
			return ociimage.Write(archive, Ref(name), r.config, layer)
		}
		below, err := ociimage.Layers(base, dir)
		if err != nil {
			return err
		}
		defer ociimage.Discard(below)
		return ociimage.Write(archive, Ref(name), r.config, append(below, layer)...)
	})
}

// keyLength is how many hex digits of the hash name an archive.
const keyLength = 16

func hashOf(content ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(content, "\x00")))
	return hex.EncodeToString(sum[:])[:keyLength]
}

// fileHash returns the hash of a file's content.
func fileHash(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hashOf(string(data)), nil
}
