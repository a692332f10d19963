// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command krew prints the manifest with which krew installs kubectl's plugin: the template install/krew/sandbar.yaml.tmpl
// with a release's version, and the archives of a folder with their hashes.
//
//	go -C hack/krew run . v1.2.0 ../../dist >dist/sandbar.yaml
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// manifest is the template, as seen from this folder.
const manifest = "../../install/krew/sandbar.yaml.tmpl"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "krew: call it with the version and the folder of the archives: krew v1.2.0 dist")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

// archive is what a release has for one platform.
type archive struct {
	OS, Arch string
	// File is its name, SHA256 its hash in hexadecimal digits, and Program the name of the program in it.
	File, SHA256, Program string
}

// release is a version as krew reads it: semantic, with a v before it.
var release = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// write writes the manifest of a version with the archives of a folder.
func write(out io.Writer, version, dir string) error {
	if !release.MatchString(version) {
		return fmt.Errorf("%q is not the version of a release, such as v1.2.0: tag the commit, and check it out", version)
	}
	archives, err := archivesIn(dir, version)
	if err != nil {
		return err
	}
	t, err := template.New(filepath.Base(manifest)).Option("missingkey=error").ParseFiles(manifest)
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}
	if err := t.Execute(out, struct {
		Version  string
		Archives []archive
	}{version, archives}); err != nil {
		return fmt.Errorf("filling in the template: %w", err)
	}
	return nil
}

// archivesIn finds the archives sandbar_VERSION_OS_ARCH.tar.gz of a version.
func archivesIn(dir, version string) ([]archive, error) {
	prefix := "sandbar_" + version + "_"
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*.tar.gz"))
	if err != nil {
		return nil, fmt.Errorf("looking for archives: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no archive %sOS_ARCH.tar.gz", dir, prefix)
	}
	var found []archive
	for _, file := range files {
		name := filepath.Base(file)
		goos, arch, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, prefix), ".tar.gz"), "_")
		if !ok {
			return nil, fmt.Errorf("%s does not name its platform, as %sOS_ARCH.tar.gz does", file, prefix)
		}
		sum, err := sumOf(file)
		if err != nil {
			return nil, err
		}
		a := archive{OS: goos, Arch: arch, File: name, SHA256: sum, Program: "sandbar"}
		if goos == "windows" {
			a.Program += ".exe"
		}
		found = append(found, a)
	}
	return found, nil
}

func sumOf(file string) (sum string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("reading an archive: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", file, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
