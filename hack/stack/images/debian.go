// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/ociimage"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
)

// debianTools unpack Debian packages.
var debianTools = []parts.Tool{{File: "apt-get", Package: "apt"}, {File: "dpkg-deb", Package: "dpkg"}}

// writeDebianWithout puts Debian packages with all that they depend on into a layer,
// from the machine's own package sources, but for packages that others depend on for what is
// never used here. The packages' scripts are not run: nothing here needs root, and what the few
// used programs would get from them (users, folders) is written instead.
func writeDebianWithout(ctx context.Context, w *ociimage.LayerWriter, without []string, packages ...string) error {
	if err := parts.Ensure(ctx, debianTools); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sandbar-packages-")
	if err != nil {
		return fmt.Errorf("making a folder for packages: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	debs, err := download(ctx, dir, packages)
	if err != nil {
		return err
	}
	if err := writeSkeleton(w); err != nil {
		return err
	}
	for _, deb := range debs {
		name, _, _ := strings.Cut(filepath.Base(deb), "_")
		if slices.Contains(without, name) {
			continue
		}
		if err := unpack(ctx, w, deb); err != nil {
			return fmt.Errorf("unpacking %s: %w", filepath.Base(deb), err)
		}
		if name == "ca-certificates" {
			if err := writeCertificates(ctx, w, deb); err != nil {
				return fmt.Errorf("collecting the certificates of %s: %w", filepath.Base(deb), err)
			}
		}
	}
	return nil
}

// writeCertificates writes the file in which programs look for certificate authorities, which a script
// of the package would make of the package's own.
func writeCertificates(ctx context.Context, w *ociimage.LayerWriter, deb string) error {
	var bundle strings.Builder
	err := eachFile(ctx, deb, func(h tar.Header, content io.Reader) error {
		if !strings.HasSuffix(h.Name, ".crt") {
			return nil
		}
		_, err := io.Copy(&bundle, content)
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(
		w.Text("etc/ssl/certs/ca-certificates.crt", bundle.String(), 0o644),
		// Where OpenSSL looks; its own package would link it.
		w.Symlink("usr/lib/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt"),
	)
}

// download fetches the packages and, since apt is told that nothing is
// installed, everything that they depend on.
func download(ctx context.Context, dir string, packages []string) ([]string, error) {
	archives := filepath.Join(dir, "archives")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		return nil, fmt.Errorf("making a folder for packages: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), nil, 0o644); err != nil {
		return nil, fmt.Errorf("telling apt that nothing is installed: %w", err)
	}
	fetch := func() error {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{
			"-o", "Dir::State::status=" + filepath.Join(dir, "status"),
			"-o", "Dir::Cache::archives=" + archives,
			"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
			"-o", "Debug::NoLocking=1", "-o", "APT::Install-Recommends=false", "-o", "APT::Sandbox::User=root",
			"--download-only", "-qq", "-y", "install",
		}, packages...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get: %w\n%s", err, out)
		}
		return nil
	}
	if err := fetch(); err != nil {
		// The machine's lists may be missing or name versions that are gone.
		if out, updateErr := exec.CommandContext(ctx, "apt-get", "update", "-qq").CombinedOutput(); updateErr != nil {
			return nil, errors.Join(err, fmt.Errorf("apt-get update: %w\n%s", updateErr, out))
		}
		if err := fetch(); err != nil {
			return nil, err
		}
	}
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return nil, err
	}
	sort.Strings(debs)
	return debs, nil
}

// merged are the folders that in today's Debian are links into /usr.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// writeSkeleton writes what packages expect to find or their scripts would make.
func writeSkeleton(w *ociimage.LayerWriter) error {
	var err error
	for _, dir := range merged {
		err = errors.Join(err, w.Dir("usr/"+dir, 0o755, ociimage.Owner{}), w.Symlink(dir, "usr/"+dir))
	}
	user := ociimage.Owner{UID: unprivileged, GID: unprivileged}
	return errors.Join(err,
		w.Dir("tmp", 0o1777, ociimage.Owner{}),
		w.Dir("home/app", 0o755, user),
		w.Text("etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\napp:x:%d:%d:app:/home/app:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n", unprivileged, unprivileged), 0o644),
		w.Text("etc/group", fmt.Sprintf("root:x:0:\napp:x:%d:\nnogroup:x:65534:\n", unprivileged), 0o644),
		w.Text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0o644),
		w.Symlink("usr/bin/awk", "mawk"),
	)
}

// dropped is what a container does not read: documentation, translations, and
// what only package management uses.
var dropped = []string{
	"usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/",
	"usr/share/bug/", "usr/share/doc-base/", "usr/lib/x86_64-linux-gnu/gconv/", "usr/lib/aarch64-linux-gnu/gconv/",
	"var/cache/", "var/lib/dpkg/",
}

// unpack adds a package's files, merged into /usr, without set-id bits: nothing
// in a sandbox may gain rights.
func unpack(ctx context.Context, w *ociimage.LayerWriter, deb string) error {
	return eachFile(ctx, deb, func(h tar.Header, content io.Reader) error { return addPackaged(w, h, content) })
}

// eachFile calls use with each file of a package.
func eachFile(ctx context.Context, deb string, use func(h tar.Header, content io.Reader) error) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	archive := tar.NewReader(out)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return cmd.Wait()
		}
		if err == nil {
			err = use(*h, archive)
		}
		if err != nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
}

func addPackaged(w *ociimage.LayerWriter, h tar.Header, content io.Reader) error {
	h.Name = intoUsr(strings.TrimPrefix(h.Name, "./"))
	if h.Name == "" || isDropped(h.Name) {
		return nil
	}
	if h.Typeflag == tar.TypeLink {
		h.Linkname = intoUsr(strings.TrimPrefix(h.Linkname, "./"))
	}
	const setID = 0o6000
	h.Mode &^= setID
	return w.Add(h, content)
}

func intoUsr(name string) string {
	top, _, _ := strings.Cut(name, "/")
	if slices.Contains(merged, top) {
		return "usr/" + name
	}
	return name
}

func isDropped(name string) bool {
	for _, prefix := range dropped {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
