// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"
	"testing"
)

func TestRequestHeaderOptions(t *testing.T) {
	for name, c := range map[string]struct {
		options  RequestHeader
		insecure bool
		want     string
	}{
		"nothing is fine":             {RequestHeader{}, true, ""},
		"a CA needs TLS":              {RequestHeader{ClientCAFile: "x"}, true, "needs TLS"},
		"names without a CA":          {RequestHeader{AllowedNames: []string{"x"}}, false, "requestheader-allowed-names needs"},
		"a header without a name":     {RequestHeader{ClientCAFile: "x", GroupHeaders: []string{" "}}, false, "must have names"},
		"a CA, names and own headers": {RequestHeader{ClientCAFile: "x", AllowedNames: []string{"x"}, UsernameHeaders: []string{"X-User"}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.SetDefaults()
			got := ""
			if err := c.options.Validate(c.insecure); err != nil {
				got = err.Error()
			}
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q", got)
			}
		})
	}
	var o RequestHeader
	o.SetDefaults()
	if got := slices.Concat(o.UsernameHeaders, o.UIDHeaders, o.GroupHeaders, o.ExtraHeaderPrefixes); !slices.Equal(got, []string{"X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-"}) {
		t.Errorf("defaults are %v", got)
	}
}
