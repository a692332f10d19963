// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"
)

func TestCheckDataPlaneURL(t *testing.T) {
	for name, tc := range map[string]struct{ url, refused string }{
		"a host is enough":                          {"https://dp.test", ""},
		"a port and a path are fine":                {"https://dp.test:8443/services/x", ""},
		"an address is fine":                        {"https://[::1]:8443", ""},
		"tokens must not be shown on a wire":        {"http://dp.test", "must be https://"},
		"a host alone is no URL":                    {"dp.test", "must be https://"},
		"nothing is no URL":                         {"", "must be https://"},
		"a query would end up within requests":      {"https://dp.test?x=y", "must be https://"},
		"a fragment is never sent":                  {"https://dp.test#x", "must be https://"},
		"a user would be published, so it is not":   {"https://user:s3cret@dp.test/p", "give https://dp.test/p"},
		"nor is a user of a URL that shows tokens":  {"http://user:s3cret@dp.test", "must be without a user"},
		"something that does not parse is no URL":   {"https://dp .test", "must be https://"},
		"https without a host leads nowhere at all": {"https:///path", "must be https://"},
		"slashes at the end do not count":           {"https://dp.test/p//", ""},
		"what clients take for another is refused":  {"https://dp.test/clusters/c", "serve the data plane under another path"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckDataPlaneURL(tc.url)
			if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("err = %v, want %q", err, tc.refused)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

func TestCheckImages(t *testing.T) {
	for name, tc := range map[string]struct{ key, image, refused string }{
		"a word is a key":                            {"runner", "registry.test/runner:1", ""},
		"a key may have capitals and digits":         {"node22Slim", "node@sha256:0", ""},
		"57 characters are enough":                   {strings.Repeat("a", 57), "x", ""},
		"58 are too many":                            {strings.Repeat("a", 58), "x", "up to 57"},
		"a dash would be a minus in an expression":   {"my-node", "x", `the key "my-node" must`},
		"a dot would be a field in an expression":    {"my.node", "x", `the key "my.node" must`},
		"a slash is in no key of a ConfigMap":        {"a/b", "x", `the key "a/b" must`},
		"a digit begins no identifier":               {"1node", "x", `the key "1node" must`},
		"no key is no key":                           {"", "x", `the key "" must`},
		"no image is no image":                       {"node", "", "node=registry.example/node:1.2"},
		"an image with a space is none":              {"node", "a b", "is no reference"},
		"an image with the end of a line is none":    {"node", "a\n", "is no reference"},
		"what is wrong with a key comes before that": {"1", "", "must begin"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckImages(map[string]string{tc.key: tc.image})
			if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("err = %v, want %q", err, tc.refused)
			}
		})
	}
}

func TestCheckPreviewDomain(t *testing.T) {
	const url = "https://sandboxes.example.com:8443/base"
	for name, tc := range map[string]struct {
		domain, url, want string
	}{
		"none":                               {"", url, ""},
		"one below the data plane's host":    {"preview.sandboxes.example.com", url, ""},
		"one beside it":                      {"preview.example.net:8443", url, ""},
		"the data plane's own, as localhost": {"localhost:8443", "https://localhost:8443", ""},
		"one above it":                       {"example.com", url, "must not be above sandboxes.example.com"},
		"no domain":                          {"exam ple.com", url, "is not a domain"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckPreviewDomain(tc.domain, tc.url)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
