// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/contract"
)

// FuzzPodStreamQuery holds what reaches the API server to the parameters that were looked at.
func FuzzPodStreamQuery(f *testing.F) {
	for _, seed := range []string{
		"command=sh&stdout=true", "command=sh&command=-c&command=%26&stdin=1&stdout=1&tty=1&container=main", "command=a%00b&stdout=1",
		"container=..%2f..&command=x&stdout=true", "command=x&stdout=true&stdout=true", "command=x;stdout=true", "command=%ff&stdout=1", "%63ommand=sh&stdout=true", "",
	} {
		f.Add(seed)
	}
	p := fixture.Pod(fixture.DemoID, "pod-0", "127.0.0.1", 80)
	at := &locate.Target{Pod: p, Subresource: contract.PodExec}
	f.Fuzz(func(t *testing.T, raw string) {
		got, refused := podStreamQuery(raw, at)
		if refused != nil {
			if refused.Code != http.StatusBadRequest && refused.Code != http.StatusConflict {
				t.Errorf("%q is refused with %d", raw, refused.Code)
			}
			return
		}
		again, err := url.ParseQuery(got.Encode())
		if err != nil || !cmp.Equal(got, again) {
			t.Fatalf("%q became %q, which reads as %v (%v)", raw, got.Encode(), again, err)
		}
		size := 0
		for _, argument := range got["command"] {
			size += len(argument)
			if strings.Contains(argument, "\x00") || !utf8.ValidString(argument) {
				t.Errorf("%q let %q through", raw, argument)
			}
		}
		if size > maxExecBytes || len(got["command"]) > maxExecArguments || len(got["command"]) == 0 {
			t.Errorf("%q let a command of %d bytes in %d arguments through", raw, size, len(got["command"]))
		}
		if !slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == got.Get("container") }) {
			t.Errorf("%q let container %q through", raw, got.Get("container"))
		}
		for name, values := range got {
			switch name {
			case "command":
			case "container", "stdin", "stdout", "stderr", "tty":
				if len(values) != 1 {
					t.Errorf("%q let %d values of %s through", raw, len(values), name)
				}
			default:
				t.Errorf("%q let %s through", raw, name)
			}
		}
	})
}
