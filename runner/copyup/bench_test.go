// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

// modules is a tree like that of npm: 5,000 files in 1,250 directories, most of a few kilobytes, and links to programs.
func modules(t testing.TB, dir string) {
	t.Helper()
	m := image{}
	for i := range 250 {
		p := fmt.Sprintf("node_modules/package-%d", i)
		m[p+"/package.json"] = entry{content: strings.Repeat("{}", 500+i)}
		m[p+"/bin/run"] = entry{content: "#!/usr/bin/env node\n", mode: 0o755}
		m[fmt.Sprintf("node_modules/.bin/run-%d", i)] = entry{symlink: fmt.Sprintf("../package-%d/bin/run", i)}
		for j := range 17 {
			size := 200 * (1 + (i*17+j)%40)
			if (i+j)%100 == 0 {
				size = 400 << 10
			}
			m[fmt.Sprintf("%s/%s/file-%d.js", p, []string{"lib", "dist", "types/deep"}[j%3], j)] = entry{content: strings.Repeat("x", size)}
		}
	}
	m.make(t, dir)
}

// BenchmarkCopy copies 5,000 files by Run and by cp -a, in turns, and gives the ratio of their times: Run to cp -a with the
// sync that Run ends with, and to cp -a alone.
func BenchmarkCopy(b *testing.B) {
	source, volume := folders(b)
	modules(b, source)
	home, err := openFolder(volume, nil)
	must(b, err)
	defer home.close()
	var ours, theirs, synced time.Duration
	n := 0
	for b.Loop() {
		n++
		own, other := filepath.Join(volume, fmt.Sprintf("own-%d", n)), filepath.Join(volume, fmt.Sprintf("other-%d", n))
		must(b, os.Mkdir(own, 0o755))
		must(b, unix.Syncfs(home.fd))
		start := time.Now()
		if r := Run(b.Context(), Options{Source: source, Target: own}); r.Reason != copywire.Copied || r.Files != 5000 {
			b.Fatalf("got %+v", r)
		}
		ours += time.Since(start)
		start = time.Now()
		if out, err := exec.Command("cp", "-a", source, other).CombinedOutput(); err != nil {
			b.Fatalf("cp: %v: %s", err, out)
		}
		theirs += time.Since(start)
		must(b, unix.Syncfs(home.fd))
		synced += time.Since(start)
	}
	b.ReportMetric(ours.Seconds()/synced.Seconds(), "of-cp-and-sync")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "of-cp")
	b.ReportMetric(float64(ours.Milliseconds())/float64(n), "ms/copy")
}
