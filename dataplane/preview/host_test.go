// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const hash = "abcdefghijklmnopqrstuvwxyz"

func domain(t testing.TB, s string) Domain {
	t.Helper()
	d, err := ParseDomain(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWhatIsAPreviewDomain(t *testing.T) {
	for in, want := range map[string]string{
		"preview.example.com":      "preview.example.com",
		"preview.example.com:443":  "preview.example.com",
		"preview.example.com:8443": "preview.example.com:8443",
		"localhost:8443":           "localhost:8443",
		"localhost":                "localhost",
		"":                         "",
		"Preview.example.com":      "",
		"preview.example.com.":     "",
		".example.com":             "",
		"*.example.com":            "",
		"https://example.com":      "",
		"example.com/path":         "",
		"example.com:":             "",
		"example.com:0":            "",
		"example.com:080":          "",
		"example.com:65536":        "",
		"example.com:80:80":        "",
		"127.0.0.1":                "",
		"127.0.0.1:8443":           "",
		"[::1]:8443":               "",
		"exa mple.com":             "",
		"under_score.com":          "",
	} {
		d, err := ParseDomain(in)
		if got := d.String(); got != want || (err == nil) != (want != "") || (err != nil && !errors.Is(err, ErrDomain)) {
			t.Errorf("%q is read as %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestADomainIsolatesItsPreviewsIfItIsAPublicSuffix(t *testing.T) {
	for in, want := range map[string]bool{
		"localhost:8443": true, "github.io": true, "co.uk": true,
		"preview.example.com": false, "example.com": false,
	} {
		if got := domain(t, in).Isolates(); got != want {
			t.Errorf("%s isolates: %v", in, got)
		}
	}
}

func TestEachInstanceAndComponentHasAHost(t *testing.T) {
	d := domain(t, "localhost:8443")
	for component, want := range map[string]string{
		"":    "sb-" + hash + ".localhost:8443",
		"api": "api--sb-" + hash + ".localhost:8443",
		// Full: 30 + 2 + 29 characters are below 63.
		strings.Repeat("a", 30): strings.Repeat("a", 30) + "--sb-" + hash + ".localhost:8443",
		"a--sb-" + hash[:10]:    "a--sb-" + hash[:10] + "--sb-" + hash + ".localhost:8443",
		strings.Repeat("a", 31): "",
		// Browsers would decode the label as Punycode.
		"xn":     "",
		"xn--ab": "",
		"Api":    "",
		"a.b":    "",
		"-a":     "",
	} {
		host, err := d.Host("sb-"+hash, component, "")
		if host != want || (err != nil) != (want == "") {
			t.Errorf("component %q has host %q, %v", component, host, err)
		}
		if want == "" {
			continue
		}
		name, below, valid := d.Match(host)
		if diff := cmp.Diff(Name{Namespace: "sb-" + hash, Component: component, Host: host}, name); diff != "" || !below || !valid {
			t.Errorf("%s is read back as (below %v, valid %v): %s", host, below, valid, diff)
		}
	}
}

func TestAPortHasAHostOfItsOwn(t *testing.T) {
	d := domain(t, "localhost:8443")
	for _, c := range []struct{ component, port, want string }{
		{"", "80", "80-sb-" + hash},
		{"", "65535", "65535-sb-" + hash},
		{"api", "8080", "api--8080-sb-" + hash},
		// Components that look like ports, and ports behind them, stay apart.
		{"8080", "", "8080--sb-" + hash},
		{"8080", "8080", "8080--8080-sb-" + hash},
		{"a--80", "", "a--80--sb-" + hash},
		{"a--80", "90", "a--80--90-sb-" + hash},
		{strings.Repeat("a", 26), "65535", strings.Repeat("a", 26) + "--65535-sb-" + hash},
		{strings.Repeat("a", 27), "65535", ""},
		{"", "0", ""},
		{"", "080", ""},
		{"", "65536", ""},
		{"", "http", ""},
		{"", "-1", ""},
	} {
		host, err := d.Host("sb-"+hash, c.component, c.port)
		if c.want == "" {
			if !errors.Is(err, ErrPort) {
				t.Errorf("port %q of %q has host %q, %v", c.port, c.component, host, err)
			}
			continue
		}
		if err != nil || host != c.want+".localhost:8443" {
			t.Errorf("port %q of %q has host %q, %v; want %s", c.port, c.component, host, err, c.want)
		}
		name, _, valid := d.Match(host)
		if diff := cmp.Diff(Name{Namespace: "sb-" + hash, Component: c.component, Port: c.port, Host: host}, name); diff != "" || !valid {
			t.Errorf("%s is read back (valid %v): %s", host, valid, diff)
		}
	}
}

func TestWhichHostsArePreviews(t *testing.T) {
	const own = "sb-" + hash
	for name, c := range map[string]struct {
		host         string
		below, valid bool
	}{
		"an instance's":                     {own + ".preview.example.com", true, true},
		"in upper case":                     {"SB-" + strings.ToUpper(hash) + ".Preview.Example.COM", true, true},
		"with the default port":             {own + ".preview.example.com:443", true, true},
		"with another port":                 {own + ".preview.example.com:8443", true, true},
		"with an empty port":                {own + ".preview.example.com:", true, true},
		"with a port that is none":          {own + ".preview.example.com:x", true, false},
		"with two ports":                    {own + ".preview.example.com:1:2", true, false},
		"with a trailing dot":               {own + ".preview.example.com.", true, false},
		"with two trailing dots":            {own + ".preview.example.com..:443", true, false},
		"of a component":                    {"api--" + own + ".preview.example.com", true, true},
		"of an empty component":             {"--" + own + ".preview.example.com", true, false},
		"of a port":                         {"8080-" + own + ".preview.example.com", true, true},
		"of a component's port":             {"api--8080-" + own + ".preview.example.com", true, true},
		"of a port that is none":            {"65536-" + own + ".preview.example.com", true, false},
		"of a port with a leading zero":     {"080-" + own + ".preview.example.com", true, false},
		"of a port with one hyphen before":  {"api-8080-" + own + ".preview.example.com", true, false},
		"of a hyphen alone":                 {"-" + own + ".preview.example.com", true, false},
		"of a component with one hyphen":    {"api-" + own + ".preview.example.com", true, false},
		"of a component like Punycode":      {"xn--" + own + ".preview.example.com", true, false},
		"one label more":                    {"x." + own + ".preview.example.com", true, false},
		"another label":                     {"www.preview.example.com", true, false},
		"a hash with a digit that is none":  {"sb-" + hash[:25] + "1.preview.example.com", true, false},
		"a hash that is short":              {"sb-" + hash[:25] + ".preview.example.com", true, false},
		"an empty label":                    {".preview.example.com", true, false},
		"the domain itself":                 {"preview.example.com", false, false},
		"the domain itself with a dot":      {"preview.example.com.", false, false},
		"the domain's parent":               {own + ".example.com", false, false},
		"a domain that only ends like ours": {own + ".xpreview.example.com", false, false},
		"ours with something behind":        {own + ".preview.example.com.evil.org", false, false},
		"a NUL in the label":                {"sb-\x00" + hash[1:] + ".preview.example.com", true, false},
		"the long s, which folds to s":      {"ſb-" + hash + ".preview.example.com", true, false},
		"an address":                        {"127.0.0.1:8443", false, false},
		"an IPv6 address":                   {"[::1]:8443", false, false},
		"nothing":                           {"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, below, valid := domain(t, "preview.example.com").Match(c.host)
			if below != c.below || valid != c.valid {
				t.Fatalf("below %v, valid %v (%+v)", below, valid, got)
			}
			if _, below, valid := (Domain{}).Match(c.host); below || valid {
				t.Error("no domain has a host")
			}
		})
	}
}

func FuzzHost(f *testing.F) {
	f.Add("localhost:8443", "api--sb-"+hash+".localhost:8443")
	f.Add("preview.example.com", "SB-"+hash+".preview.example.com.")
	f.Add("a", "sb-"+hash+".a:")
	f.Add("a", "8080-sb-"+hash+".a")
	f.Add("a", "api--8080-sb-"+hash+".a")
	f.Fuzz(func(t *testing.T, configured, host string) {
		d, err := ParseDomain(configured)
		if err != nil {
			return
		}
		name, below, valid := d.Match(host)
		if valid && !below {
			t.Fatalf("%q is a preview of %q and not below it", host, configured)
		}
		if !valid {
			if name != (Name{}) && name.Host != "" {
				t.Fatalf("%q has no valid name and host %q", host, name.Host)
			}
			return
		}
		if !placement.IsNamespace(name.Namespace) {
			t.Fatalf("%q leads to namespace %q", host, name.Namespace)
		}
		// The one way to write it is what a link is sealed for.
		back, err := d.Host(name.Namespace, name.Component, name.Port)
		if err != nil || back != name.Host {
			t.Fatalf("%q is %+v, whose host is %q, %v", host, name, back, err)
		}
		if again, _, valid := d.Match(back); !valid || again != name {
			t.Fatalf("%q is %+v, then %+v", host, name, again)
		}
	})
}
