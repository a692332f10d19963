// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// stamped are the packages from which Kubernetes' programs, and kcp, which is made of them, take
// the version that they tell: the first for servers, the second for the user agent of clients.
// Built as a dependency they say v0.0.0-master+$Format:%H$, which is no version: kubectl refuses
// it, and a check for a minimum cannot fail.
var stamped = []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"}

// reportedVersion is the version for which the binaries are stamped, read from what go.mod
// requires, or nothing for a part that is not stamped. It has the form of kcp's own build when
// there is more than one module: v1.36.0+kcp-v0.32.3.
func (p Part) reportedVersion(ctx context.Context, dir string) (string, error) {
	if len(p.VersionOf) == 0 {
		return "", nil
	}
	// Reads this one file; go list would want to have the whole module graph.
	answer, err := p.goRun(ctx, dir, "mod", "edit", "-json")
	if err != nil {
		return "", err
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(answer), &mod); err != nil {
		return "", fmt.Errorf("reading the answer of go mod edit: %w", err)
	}
	required := map[string]string{}
	for _, r := range mod.Require {
		required[r.Path] = r.Version
	}
	version := ""
	for _, module := range p.VersionOf {
		v, ok := required[module]
		if !ok {
			return "", fmt.Errorf("go.mod in %s does not require %s", dir, module)
		}
		if version == "" {
			version = v
		} else {
			version += "+" + path.Base(module) + "-" + v
		}
	}
	return version, nil
}

// linkFlags are those of the linker, for binaries that tell version, if they are to tell one.
// The same sources give the same binary: there is no date, and no commit, in a module.
func linkFlags(version string) string {
	flags := []string{"-s", "-w"}
	if version == "" {
		return strings.Join(flags, " ")
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	for _, pkg := range stamped {
		for _, set := range [][2]string{
			{"gitVersion", version},
			{"gitMajor", major},
			{"gitMinor", minor},
			{"gitCommit", "unknown"},
			// Kubernetes' word for sources that do not come from a repository.
			{"gitTreeState", "archive"},
			{"buildDate", "1970-01-01T00:00:00Z"},
		} {
			flags = append(flags, fmt.Sprintf("-X %s.%s=%s", pkg, set[0], set[1]))
		}
	}
	return strings.Join(flags, " ")
}
