// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/progress"
)

// Tool is something the machine must have, and the Debian package that has it.
type Tool struct {
	// File is a program's name, or an absolute path.
	File, Package string
}

// RunTools are needed to run a node.
var RunTools = []Tool{
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"ipset", "ipset"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
}

// cgoTools are needed to build what links against C libraries.
var cgoTools = []Tool{
	{"gcc", "gcc"},
	{"/usr/include/errno.h", "libc6-dev"},
	{"pkg-config", "pkg-config"},
	{"/usr/include/seccomp.h", "libseccomp-dev"},
}

func ensureBuildTools(ctx context.Context, p Part) error {
	if !p.CGO {
		return nil
	}
	return Ensure(ctx, cgoTools)
}

// Ensure installs the Debian packages of the tools that are missing, as root
// where there is apt, and names them elsewhere.
func Ensure(ctx context.Context, tools []Tool) error {
	var missing []string
	for _, t := range tools {
		if !present(t.File) {
			missing = append(missing, t.Package)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("this machine lacks %s: install them (Debian: apt-get install %s)", list, list)
	}
	return progress.Step("installed "+list, func() error {
		for _, args := range [][]string{
			{"update", "-qq"},
			append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...),
		} {
			cmd := exec.CommandContext(ctx, "apt-get", args...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, tail(string(out)))
			}
		}
		return nil
	})
}

func present(file string) bool {
	if strings.HasPrefix(file, "/") {
		_, err := os.Stat(file)
		return err == nil
	}
	_, err := exec.LookPath(file)
	return err == nil
}

func splitFolder(from string) (module, folder string) {
	module, folder, _ = strings.Cut(from, "//")
	return module, folder
}

// downloadedDir reads the answer of "go mod download -json".
func downloadedDir(answer string) (string, error) {
	var module struct{ Dir, Error string }
	if err := json.Unmarshal([]byte(answer), &module); err != nil {
		return "", fmt.Errorf("reading the answer of go mod download: %w", err)
	}
	if module.Error != "" {
		return "", fmt.Errorf("downloading: %s", module.Error)
	}
	return module.Dir, nil
}
