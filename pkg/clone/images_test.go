// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import "testing"

var imageRows = []struct {
	name, pattern, image string
	admitted             bool
}{
	{"a short name is of Docker's library", "docker.io/library/nginx", "nginx", true},
	{"a short pattern is of Docker's library", "nginx", "docker.io/library/nginx:1.29", true},
	{"a name without library", "nginx", "docker.io/nginx", true},
	{"a pattern without library", "docker.io/nginx", "nginx", true},
	{"the old name of Docker Hub", "nginx", "index.docker.io/library/nginx", true},
	{"the old name of Docker Hub in a pattern", "index.docker.io/acme/web", "acme/web", true},
	{"a user of Docker Hub", "acme/*", "docker.io/acme/web", true},
	{"all of Docker's library", "*", "nginx", true},
	{"all of Docker's library is not all of Docker Hub", "*", "acme/web", false},
	{"a tag is free", "ghcr.io/acme/web", "ghcr.io/acme/web:pr-1", true},
	{"a digest is free", "ghcr.io/acme/web", "ghcr.io/acme/web@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", true},
	{"a tag and a digest are free", "ghcr.io/acme/web", "ghcr.io/acme/web:1@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", true},
	{"a star is one segment", "ghcr.io/acme/*", "ghcr.io/acme/web", true},
	{"a star is not none", "ghcr.io/acme/*", "ghcr.io/acme", false},
	{"a star is not two segments", "ghcr.io/acme/*", "ghcr.io/acme/web/debug", false},
	{"a star within a segment", "ghcr.io/acme/web-*", "ghcr.io/acme/web-debug", true},
	{"a star is in the middle of a path", "ghcr.io/*/web", "ghcr.io/acme/web", true},
	{"a way up", "ghcr.io/acme/*", "ghcr.io/acme/../evil", false},
	{"a way up behind a name", "ghcr.io/acme/*", "ghcr.io/acme/x/../../evil/x", false},
	{"an empty segment", "ghcr.io/acme/*", "ghcr.io//acme/web", false},
	{"a prefix is not a repository", "ghcr.io/acme/web", "ghcr.io/acme/webs", false},
	{"a registry that begins alike", "ghcr.io/acme/*", "ghcr.io.evil.example/acme/web", false},
	{"a registry with a user before it", "ghcr.io/acme/*", "evil@ghcr.io/acme/web", false},
	{"a registry in capitals is the same", "ghcr.io/acme/*", "GHCR.IO/acme/web", true},
	{"a pattern in capitals is the same", "GHCR.IO/acme/*", "ghcr.io/acme/web", true},
	{"a path in capitals is not a reference", "ghcr.io/acme/*", "ghcr.io/ACME/web", false},
	{"a port is part of the registry", "registry.example.com:5000/web", "registry.example.com:5000/web:1", true},
	{"another port is another registry", "registry.example.com/web", "registry.example.com:5000/web", false},
	{"the usual port is another registry", "registry.example.com/web", "registry.example.com:443/web", false},
	{"a registry of this machine", "localhost/web", "localhost/web", true},
	{"a registry of this machine is not a user of Docker Hub", "localhost/web", "docker.io/localhost/web", false},
	{"a star as a registry is a user of Docker Hub", "*/web", "evil.example/web", false},
	{"a star in a registry admits nothing", "*.example.com/web", "a.example.com/web", false},
	{"content alone", "*", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", false},
	{"content alone, without its algorithm", "*", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", false},
	{"a space before it", "nginx", " nginx", false},
	{"a scheme", "nginx", "https://docker.io/library/nginx", false},
	{"a class of characters admits nothing", "ghcr.io/acme/[a-z]", "ghcr.io/acme/w", false},
	{"nothing", "nginx", "", false},
}

func TestWhichImagesAPatternAdmits(t *testing.T) {
	for _, row := range imageRows {
		t.Run(row.name, func(t *testing.T) {
			repository, err := repositoryOf(row.image)
			if got := err == nil && admitsRepository(row.pattern, repository); got != row.admitted {
				t.Errorf("%q admits %q (%s, %v): %v", row.pattern, row.image, repository, err, got)
			}
		})
	}
}
