// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package ociimage writes container images as OCI archives without a registry
// or a container tool. What it writes depends on what goes in and on nothing
// else: no time, no order of a map, no machine.
package ociimage

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Config is what a container of the image starts with.
type Config struct {
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	Env        []string `json:"Env,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
	// User is numeric, for Kubernetes verifies that it is not root only then.
	User string `json:"User,omitempty"`
}

// Layer is a tar file on disk, uncompressed: an archive that goes from one
// folder of a machine to another gains nothing from compression.
type Layer struct {
	path   string
	digest string
	size   int64
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// Write writes the archive of an image with that name to path.
func Write(path, name string, config Config, layers ...Layer) error {
	type history struct {
		CreatedBy string `json:"created_by"`
	}
	image := struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		Config       Config `json:"config"`
		RootFS       struct {
			Type    string   `json:"type"`
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
		History []history `json:"history"`
	}{Architecture: runtime.GOARCH, OS: "linux", Config: config}
	image.RootFS.Type = "layers"
	manifest := struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{SchemaVersion: 2, MediaType: manifestType, Layers: []descriptor{}}
	for _, l := range layers {
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, l.digest)
		image.History = append(image.History, history{"sandbar stack"})
		manifest.Layers = append(manifest.Layers, descriptor{MediaType: layerType, Digest: l.digest, Size: l.size})
	}
	configBlob, err := json.Marshal(image)
	if err != nil {
		return fmt.Errorf("encoding the image's configuration: %w", err)
	}
	manifest.Config = describe(configType, configBlob)
	manifestBlob, err := json.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("encoding the image's manifest: %w", err)
	}
	entry := describe(manifestType, manifestBlob)
	entry.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": name,
		fullName:                            name,
	}
	indexBlob, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{entry},
	})
	if err != nil {
		return fmt.Errorf("encoding the image's index: %w", err)
	}
	return writeArchive(path, indexBlob, [][]byte{configBlob, manifestBlob}, layers)
}

func writeArchive(path string, index []byte, blobs [][]byte, layers []Layer) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", path, err)
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(out.Name()) }() // renamed by then when all went well
	defer out.Close()
	archive := tar.NewWriter(out)
	small := []struct {
		name    string
		content []byte
	}{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index}}
	for _, b := range blobs {
		small = append(small, struct {
			name    string
			content []byte
		}{blobPath(digest(b)), b})
	}
	for _, s := range small {
		if err := add(archive, s.name, int64(len(s.content)), bytes.NewReader(s.content)); err != nil {
			return err
		}
	}
	for _, l := range layers {
		f, err := os.Open(l.path)
		if err != nil {
			return fmt.Errorf("reading a layer: %w", err)
		}
		err = add(archive, blobPath(l.digest), l.size, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := out.Chmod(0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(out.Name(), path)
}

func add(archive *tar.Writer, name string, size int64, content io.Reader) error {
	header := &tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: epoch, Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if _, err := io.Copy(archive, content); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// Name returns the name that an archive gives its image.
func Name(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening the archive: %w", err)
	}
	defer f.Close()
	archive := tar.NewReader(f)
	for {
		h, err := archive.Next()
		if err != nil {
			return "", fmt.Errorf("%s is no OCI archive: looking for index.json: %w", path, err)
		}
		if h.Name != "index.json" {
			continue
		}
		var index struct {
			Manifests []descriptor `json:"manifests"`
		}
		if err := json.NewDecoder(archive).Decode(&index); err != nil {
			return "", fmt.Errorf("reading index.json of %s: %w", path, err)
		}
		for _, m := range index.Manifests {
			if name := m.Annotations[fullName]; name != "" {
				return name, nil
			}
		}
		return "", fmt.Errorf("the index of %s names no image (annotation %s)", path, fullName)
	}
}

// fullName is the annotation from which containerd takes an image's name.
const fullName = "io.containerd.image.name"

// epoch is the modification time of everything.
var epoch = time.Unix(0, 0).UTC()

func describe(mediaType string, blob []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(blob), Size: int64(len(blob))}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }
