// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestOpenPrintsTheAddressOfThePortThatIsMeant(t *testing.T) {
	w := newWorld(t)
	w.serve(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"url": "https://preview.example.com%s"}`, r.URL.Path)
	})
	for flags, want := range map[string]string{
		"":            "https://preview.example.com/proxy-url\n",
		"--port 8080": "https://preview.example.com/ports/8080/proxy-url\n",
	} {
		code, stdout, stderr := w.run(t, append([]string{"open", "web", "--print"}, strings.Fields(flags)...)...)
		if code != 0 || stdout != want {
			t.Errorf("open %s: exit code %d, %q, want %q; %s", flags, code, stdout, want, stderr)
		}
	}
	w.serve(func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, "no such instance or verb", http.StatusNotFound)
	})
	for flags, told := range map[string]bool{"": false, "--port 8080": true} {
		code, _, stderr := w.run(t, append([]string{"open", "web", "--print"}, strings.Fields(flags)...)...)
		if code != exitFailure || strings.Contains(stderr, "leave --port out") != told || !strings.Contains(stderr, "no such instance or verb") {
			t.Errorf("open %s of what is not there: exit code %d, %q", flags, code, stderr)
		}
	}
	if code, _, stderr := w.run(t, "open", "web", "--port", "70000"); code != exitUsage || !strings.Contains(stderr, "--port") {
		t.Errorf("port 70000: exit code %d, %q", code, stderr)
	}
}
