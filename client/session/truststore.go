// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandbar-dev/sandbar/client"
)

// TrustStore is the file with the data planes that may get the person's token. A workspace can
// be bound to any provider, and each says itself where its data plane is; whether that is a
// place to send a token to is for the person to decide, once.
type TrustStore struct {
	// Path is that of the file, usually [client.TrustFile]. Neither the file nor its folder has to exist.
	Path string
}

// Load reads the data planes; none if there is no file.
func (t TrustStore) Load() ([]client.DataPlane, error) { return client.Trusted(t.Path) }

// Add puts a data plane in, in place of one at the same origin. One that has the same CA bundle is trusted with the
// credentials of its former servers too; with another bundle, only with those of the new one. The file is replaced as
// a whole, so that a crash leaves the old one.
func (t TrustStore) Add(plane client.DataPlane) error {
	planes, err := t.Load()
	if err != nil {
		return err
	}
	if former := find(planes, plane.URL); former != nil && bytes.Equal(former.CABundle, plane.CABundle) {
		plane.Servers = joined(former.Servers, plane.Servers)
	}
	planes = slices.DeleteFunc(planes, func(p client.DataPlane) bool { return p.Is(plane.URL) })
	return t.write(append(planes, plane))
}

// joined are the servers of two entries, of which one that names none is for every server.
func joined(former, added []string) []string {
	if len(former) == 0 || len(added) == 0 {
		return nil
	}
	all := slices.Concat(former, added)
	slices.Sort(all)
	return slices.Compact(all)
}

// Remove takes out the data plane of an address, and reports whether there was one.
func (t TrustStore) Remove(address string) (bool, error) {
	planes, err := t.Load()
	if err != nil {
		return false, err
	}
	left := slices.DeleteFunc(slices.Clone(planes), func(p client.DataPlane) bool { return p.Is(address) })
	if len(left) == len(planes) {
		return false, nil
	}
	return true, t.write(left)
}

// write replaces what the file has.
func (t TrustStore) write(planes []client.DataPlane) error {
	data, err := json.MarshalIndent(client.TrustDocument{DataPlanes: planes}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the trusted data planes: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(t.Path), 0o700); err != nil {
		return fmt.Errorf("making the folder of the trusted data planes: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(t.Path), ".trust-*")
	if err != nil {
		return fmt.Errorf("writing the trusted data planes: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(append(data, '\n'))
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("writing the trusted data planes: %w", err)
	}
	if err := os.Rename(temp.Name(), t.Path); err != nil {
		return fmt.Errorf("writing the trusted data planes: %w", err)
	}
	return nil
}
