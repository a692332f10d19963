// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
)

// beyondRequest is more than the data plane takes in one request (limits.bodyBytes, 64 MiB).
const beyondRequest = 80 << 20

// TestAFileBeyondARequestTravelsAndGoesOn: a file that no request carries reaches a sandbox by parts;
// what arrived before an interruption is not sent again, and nothing of it is seen until it is whole.
func TestAFileBeyondARequestTravelsAndGoesOn(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(client.SandboxRunners)
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	tn.create(client.SandboxRunners, "SandboxRunner", "web", map[string]any{"projectRef": "files", "startCommand": "sleep infinity"}).waitReady()

	content := make([]byte, beyondRequest)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	large := filepath.Join(s.dir, "large.bin")
	if err := os.WriteFile(large, content, 0o755); err != nil {
		t.Fatal(err)
	}

	// Interrupted as soon as a part of it is there.
	remote := s.instance(t, "web").Workspace()
	ctx, interrupt := context.WithCancel(t.Context())
	up := devsync.Upload{Remote: remote, Content: bytes.NewReader(content), Size: beyondRequest, Digest: digest}
	up.OnProgress = func(done int64) {
		if done > 0 {
			interrupt()
		}
	}
	if err := up.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the interrupted upload ended with %v", err)
	}
	staged, err := remote.Staged(t.Context(), digest)
	if err != nil || staged == 0 || staged >= beyondRequest {
		t.Fatalf("%d bytes are staged, %v", staged, err)
	}
	if got := s.must("exec", "web", "--", "ls"); got != "" {
		t.Errorf("before it is whole the sandbox shows %q", got)
	}
	code, _, notes := s.run("cp", large, "web:models/large.bin")
	if code != 0 || !strings.Contains(notes, "goes on behind ") {
		t.Fatalf("cp ended with %d: %s", code, notes)
	}
	if got := s.must("exec", "web", "--", "sha256sum", "models/large.bin"); !strings.HasPrefix(got, digest) {
		t.Errorf("the sandbox's file is %q, want %s", got, digest)
	}
	if left, err := remote.Staged(t.Context(), digest); err != nil || left != 0 {
		t.Errorf("%d bytes stay staged, %v", left, err)
	}

	// And back, and by sync, which finds that it is there.
	back := filepath.Join(t.TempDir(), "back.bin")
	s.must("cp", "web:models/large.bin", back)
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	content[beyondRequest/2] ^= 1
	if err := os.MkdirAll(filepath.Join(s.dir, "models"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "models/large.bin"), content, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(large); err != nil {
		t.Fatal(err)
	}
	s.must("sync", "web", s.dir, "--prefer", "local")
	sum = sha256.Sum256(content)
	if got := s.must("exec", "web", "--", "sha256sum", "models/large.bin"); !strings.HasPrefix(got, hex.EncodeToString(sum[:])) {
		t.Errorf("after the sync the sandbox's file is %q", got)
	}
}

// instance is a sandbox as a program of the person finds it.
func (s *terminal) instance(t *testing.T, name string) *client.Instance {
	t.Helper()
	kubeconfig := ""
	for _, v := range s.env {
		if value, ok := strings.CutPrefix(v, "KUBECONFIG="); ok {
			kubeconfig = value
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile(world.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.DataPlane{URL: world.URL, CABundle: bundle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	i, err := c.Instance(t.Context(), client.SandboxRunners, "default", name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestFilesOfASandboxOfAnyImage: cp works where there is no runner, by the image's own tar.
func TestFilesOfASandboxOfAnyImage(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	tn.create(sandboxes, "Sandbox", "notes", sampleSandbox(t)).waitReady()
	cp := func(args ...string) {
		t.Helper()
		s.must(append([]string{"cp"}, args...)...)
	}

	binary := string(bytes.Repeat([]byte("\x00\xff\r\n"), 1<<20))
	s.writeAt("src", "a.bin", binary)
	s.writeAt("src/deep/er", "b", "b\n")
	if err := os.Chmod(filepath.Join(s.dir, "src/deep/er/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("deep/er/b", filepath.Join(s.dir, "src/link")); err != nil {
		t.Fatal(err)
	}
	cp(filepath.Join(s.dir, "src"), "notes:/data/app")
	back := t.TempDir()
	cp("notes:/data/app", filepath.Join(back, "app"))
	for name, want := range map[string]string{"app/a.bin": binary, "app/deep/er/b": "b\n", "app/link": "b\n"} {
		if got, err := os.ReadFile(filepath.Join(back, name)); err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, %v", name, len(got), err)
		}
	}
	if info, err := os.Stat(filepath.Join(back, "app/deep/er/b")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the executable bit is lost: %v", err)
	}
	cp(filepath.Join(s.dir, "src/a.bin"), "notes:/data/one.bin")
	if got := s.must("cp", "sandbox/notes:/data/one.bin", "-"); got != binary {
		t.Errorf("one file came back with %d bytes", len(got))
	}
	code, _, notes := s.run("cp", "sbx/notes:/data/none", back)
	if code != 1 || !strings.Contains(notes, "No such file") {
		t.Errorf("a file that is not there: exit code %d, %s", code, notes)
	}
}
