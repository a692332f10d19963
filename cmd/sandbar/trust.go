// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/client"
)

// Annotations that kcp copies from the export to every binding of it.
const (
	annotationURL = "extra.apis.kcp.io/dataplane-url"
	annotationCA  = "extra.apis.kcp.io/dataplane-ca-sha256"
)

// trustStore is the file with the data planes that may get the person's token. A workspace can
// be bound to any provider, and each says itself where its data plane is; whether that is a
// place to send a token to is for the person to decide, once.
type trustStore struct{ path string }

func (s *session) trustStore() (trustStore, error) {
	if s.trustFile != "" {
		return trustStore{s.trustFile}, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return trustStore{}, fmt.Errorf("finding your configuration folder (use --trust-file): %w", err)
	}
	return trustStore{filepath.Join(dir, "sandbar", "trust.json")}, nil
}

type trustDocument struct {
	DataPlanes []client.DataPlane `json:"dataPlanes"`
}

func (t trustStore) load() ([]client.DataPlane, error) {
	data, err := os.ReadFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the trusted data planes: %w", err)
	}
	var doc trustDocument
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("reading the trusted data planes in %s: %w", t.path, err)
	}
	return doc.DataPlanes, nil
}

// add puts a data plane in, in place of one with the same URL. The file is replaced as a whole,
// so that a crash leaves the old one.
func (t trustStore) add(plane client.DataPlane) error {
	planes, err := t.load()
	if err != nil {
		return err
	}
	planes = slices.DeleteFunc(planes, func(p client.DataPlane) bool { return p.URL == plane.URL })
	data, err := json.MarshalIndent(trustDocument{append(planes, plane)}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the trusted data planes: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return fmt.Errorf("making the folder of the trusted data planes: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(t.path), ".trust-*")
	if err != nil {
		return fmt.Errorf("writing the trusted data planes: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(append(data, '\n'))
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("writing the trusted data planes: %w", err)
	}
	if err := os.Rename(temp.Name(), t.path); err != nil {
		return fmt.Errorf("writing the trusted data planes: %w", err)
	}
	return nil
}

func newTrustCommand(s *session) *cobra.Command {
	var caFile string
	cmd := &cobra.Command{
		Use:   "trust [URL]",
		Short: "Let a data plane get your token; without a URL, list those that your workspace is bound to",
		Long: `Let a data plane get your token.

Calling a verb sends your token to the data plane that the instance's status names. sandbar does
so only for data planes that you have named with this command. Check with the people who run
the provider that the URL is theirs.`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return s.trust(cmd, args[0], caFile)
			}
			offers, err := s.offers(cmd.Context())
			if err != nil {
				return err
			}
			for _, o := range offers {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\t(binding %s)\n", o.url, o.binding)
			}
			if len(offers) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "No APIBinding in this workspace names a data plane.")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&caFile, "ca-file", "", "PEM bundle that verifies the data plane, when its certificate is not publicly trusted")
	return cmd
}

func (s *session) trust(cmd *cobra.Command, address, caFile string) error {
	address = strings.TrimRight(address, "/") // as bindings write it, and one entry per data plane
	plane := client.DataPlane{URL: address}
	if caFile != "" {
		bundle, err := os.ReadFile(caFile)
		if err != nil {
			return fmt.Errorf("reading --ca-file: %w", err)
		}
		plane.CABundle = bundle
	}
	// Before anything else is read: a URL that can never be right needs no workspace.
	if err := plane.Check(); err != nil {
		return &usageError{err}
	}
	if _, _, err := s.workspace(); err != nil {
		return err
	}
	// Without the right to list bindings there is nothing to compare with.
	offers, _ := s.offers(cmd.Context())
	for _, o := range offers {
		if o.url == address && o.fingerprint != "" && o.fingerprint != fingerprintOf(plane.CABundle) {
			return fmt.Errorf("the binding %s says that %s is verified by a bundle with SHA-256 %s: pass that bundle as --ca-file; the people who run the provider have it",
				o.binding, address, o.fingerprint)
		}
	}
	store, err := s.trustStore()
	if err != nil {
		return err
	}
	if err := store.add(plane); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s may get your token from now on (%s).\n", address, store.path)
	return nil
}

// offer is a data plane that a binding of the workspace names.
type offer struct{ binding, url, fingerprint string }

func (s *session) offers(ctx context.Context) ([]offer, error) {
	cfg, _, err := s.workspace()
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	bindings, err := objects.Resource(schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}).
		List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the workspace's APIBindings: %w", err)
	}
	var found []offer
	for _, b := range bindings.Items {
		if address := b.GetAnnotations()[annotationURL]; address != "" {
			found = append(found, offer{binding: b.GetName(), url: address, fingerprint: b.GetAnnotations()[annotationCA]})
		}
	}
	return found, nil
}

func fingerprintOf(bundle []byte) string {
	if len(bundle) == 0 {
		return ""
	}
	sum := sha256.Sum256(bundle)
	return hex.EncodeToString(sum[:])
}
