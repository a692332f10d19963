// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// Layers copies the layers of an archive into temporary files below dir, lowest first, so that
// another image can be put upon them: who imports both keeps such a layer once. Discard must be
// called once they have been used.
func Layers(archive, dir string) (layers []Layer, err error) {
	blobs, err := readBlobs(archive, dir)
	defer func() {
		for _, blob := range blobs {
			if err != nil || !blob.used {
				_ = os.Remove(blob.path)
			}
		}
	}()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", archive, err)
	}
	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := decode(blobs["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		return nil, fmt.Errorf("%s is not the archive of one image: %w", archive, err)
	}
	var manifest struct {
		Layers []descriptor `json:"layers"`
	}
	if err := decode(blobs[blobPath(index.Manifests[0].Digest)], &manifest); err != nil {
		return nil, fmt.Errorf("reading the manifest of %s: %w", archive, err)
	}
	for _, l := range manifest.Layers {
		blob := blobs[blobPath(l.Digest)]
		if blob == nil || l.MediaType != layerType {
			return nil, fmt.Errorf("%s has no uncompressed layer %s", archive, l.Digest)
		}
		blob.used = true
		layers = append(layers, Layer{path: blob.path, digest: l.Digest, size: l.Size})
	}
	return layers, nil
}

// Discard removes the files of layers that Layers has made.
func Discard(layers []Layer) {
	for _, l := range layers {
		_ = os.Remove(l.path)
	}
}

// blob is a file of an archive, copied out of it.
type blob struct {
	path string
	used bool
}

// readBlobs copies all files of an archive; what it has copied is returned with an error too.
func readBlobs(archive, dir string) (map[string]*blob, error) {
	blobs := map[string]*blob{}
	in, err := os.Open(archive)
	if err != nil {
		return blobs, err
	}
	defer in.Close()
	for entries := tar.NewReader(in); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return blobs, nil
		}
		if err != nil {
			return blobs, err
		}
		out, err := os.CreateTemp(dir, ".blob-*")
		if err != nil {
			return blobs, err
		}
		blobs[path.Clean(header.Name)] = &blob{path: filepath.Clean(out.Name())}
		// Nothing is compressed: a file has the size that its header says.
		_, err = io.CopyN(out, entries, header.Size)
		if err := errors.Join(err, out.Close()); err != nil {
			return blobs, err
		}
	}
}

func decode(from *blob, into any) error {
	if from == nil {
		return errors.New("a part of it is missing")
	}
	data, err := os.ReadFile(from.path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
