// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const object = "/dataplane/clusters/root:a/sandboxrunners/demo/"
	base := Route{
		Workspace: "root:a", Namespace: "default", Group: "sandbar.dev", Version: "v1alpha1",
		Resource: "sandboxrunners", Name: "demo", Verb: "log", Prefix: object + "log",
	}
	with := func(change func(*Route)) *Route {
		r := base
		change(&r)
		return &r
	}
	for name, c := range map[string]struct {
		path string
		want *Route // nil means 400
	}{
		"a verb":                       {object + "log", &base},
		"a slash behind the verb":      {object + "log/", with(func(r *Route) { r.Tail = "/" })},
		"a tail":                       {object + "log/a/b", with(func(r *Route) { r.Tail = "/a/b" })},
		"an escaped tail":              {object + "log/a%2Fb", with(func(r *Route) { r.Tail = "/a%2Fb" })},
		"dots within a tail's segment": {object + "log/a..b/...", with(func(r *Route) { r.Tail = "/a..b/..." })},
		"escapes in addressing are decoded once": {"/dataplane/clusters/root%3aa/sandboxrunners/%64emo/log", with(func(r *Route) {
			r.Prefix = "/dataplane/clusters/root%3aa/sandboxrunners/%64emo/log"
		})},
		"the catalogue": {"/dataplane/clusters/root:a/templates", &Route{
			Workspace: "root:a", Namespace: "default", Group: "sandbar.dev", Version: "v1alpha1", Catalogue: "templates",
		}},
		"the catalogue of Baselines": {"/dataplane/clusters/root:a/baselines", &Route{
			Workspace: "root:a", Namespace: "default", Group: "sandbar.dev", Version: "v1alpha1", Catalogue: "baselines",
		}},
		"a component": {object + "components/api/log/x", with(func(r *Route) {
			r.Component, r.Tail, r.Prefix = "api", "/x", object+"components/api/log"
		})},
		"a port by number": {object + "ports/8080/log/x", with(func(r *Route) { r.Port, r.Tail, r.Prefix = "8080", "/x", object+"ports/8080/log" })},
		"a port by name, of a component": {object + "components/api/ports/http/log", with(func(r *Route) {
			r.Component, r.Port, r.Prefix = "api", "http", object+"components/api/ports/http/log"
		})},
		"a hub's prefix": {"/hub/x" + object + "log", with(func(r *Route) { r.Prefix = "/hub/x" + object + "log" })},

		"nothing":                     {"/", nil},
		"no verb":                     {object, nil},
		"no verb and no slash":        {strings.TrimSuffix(object, "/"), nil},
		"components without a verb":   {object + "components/api", nil},
		"components alone":            {object + "components", nil},
		"ports without a verb":        {object + "ports/80", nil},
		"port 0":                      {object + "ports/0/log", nil},
		"a port above all":            {object + "ports/65536/log", nil},
		"a port with a leading zero":  {object + "ports/080/log", nil},
		"a port with a host":          {object + "ports/10.0.0.1:80/log", nil},
		"a slash encoded in the port": {object + "ports/80%2f/log", nil},
		"dots as the port":            {object + "ports/../log", nil},
		"a port before a component": {object + "ports/80/components/api/log", with(func(r *Route) {
			r.Port, r.Verb, r.Tail, r.Prefix = "80", "components", "/api/log", object+"ports/80/components"
		})},
		"a doubled slash in front":               {"/" + object + "log", nil},
		"a doubled slash within":                 {"/dataplane/clusters/root:a//sandboxrunners/demo/log", nil},
		"a doubled slash before the verb":        {object + "/log", nil},
		"a slash encoded in the name":            {"/dataplane/clusters/root:a/sandboxrunners/demo%2flog/log", nil},
		"a slash encoded twice":                  {"/dataplane/clusters/root:a/sandboxrunners/demo%252flog/log", nil},
		"a backslash":                            {"/dataplane/clusters/root:a/sandboxrunners/demo%5cx/log", nil},
		"dots as the name":                       {"/dataplane/clusters/root:a/sandboxrunners/../log", nil},
		"dots encoded as the name":               {"/dataplane/clusters/root:a/sandboxrunners/%2e%2e/log", nil},
		"dots as the workspace":                  {"/dataplane/clusters/../sandboxrunners/demo/log", nil},
		"dots within a name":                     {"/dataplane/clusters/root:a/sandboxrunners/a..b/log", nil},
		"a control character":                    {"/dataplane/clusters/root:a/sandboxrunners/demo%00/log", nil},
		"a new line":                             {"/dataplane/clusters/root:a/sandboxrunners/demo%0a/log", nil},
		"broken UTF-8":                           {"/dataplane/clusters/root:a/sandboxrunners/demo%ff/log", nil},
		"a letter that looks like another":       {"/dataplane/clusters/root:a/sandboxrunners/d%D0%B5mo/log", nil},
		"an upper case name":                     {"/dataplane/clusters/root:a/sandboxrunners/Demo/log", nil},
		"an empty workspace":                     {"/dataplane/clusters//sandboxrunners/demo/log", nil},
		"a workspace that ends with a colon":     {"/dataplane/clusters/root:/sandboxrunners/demo/log", nil},
		"a wildcard workspace":                   {"/dataplane/clusters/*/sandboxrunners/demo/log", nil},
		"an overlong label":                      {object + strings.Repeat("x", 64), nil},
		"an overlong name":                       {"/dataplane/clusters/root:a/sandboxrunners/x" + strings.Repeat(".x", 127) + "/log", nil},
		"an overlong workspace":                  {"/dataplane/clusters/x" + strings.Repeat(":x", 512) + "/sandboxrunners/demo/log", nil},
		"a tail that climbs":                     {object + "log/../status", nil},
		"a tail that climbs at its end":          {object + "log/a/..", nil},
		"a tail of one dot":                      {object + "log/./a", nil},
		"a tail that climbs, encoded":            {object + "log/%2e%2e/status", nil},
		"a tail that climbs, half encoded":       {object + "log/.%2E/status", nil},
		"a tail that climbs, slash encoded":      {object + "log/a%2f..%2f..", nil},
		"a tail that climbs, encoded twice":      {object + "log/%252e%252e/status", nil},
		"a tail that climbs by backslash":        {object + "log/..%5cstatus", nil},
		"a tail that climbs with a parameter":    {object + "log/..;a=b/status", nil},
		"a tail with NUL":                        {object + "log/a%00b", nil},
		"a tail with an overlong dot":            {object + "log/%c0%ae%c0%ae/status", nil},
		"a tail with an overlong backslash":      {object + "log/a%c1%9cstatus", nil},
		"the Kubernetes form, cluster-scoped":    {"/clusters/root:a/apis/sandbar.dev/v1alpha1/sandboxrunners/demo/log", nil},
		"the Kubernetes form, the core group":    {"/clusters/root:a/api/v1/namespaces/default/pods/demo/log", nil},
		"services without a name":                {"/services//clusters/root:a/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo/log", nil},
		"services with two names":                {"/services/a/b/clusters/root:a/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo/log", nil},
		"another hub's prefix":                   {"/other" + object + "log", nil},
		"something behind the catalogue":         {"/dataplane/clusters/root:a/templates/x", nil},
		"a Baseline by its path":                 {"/dataplane/clusters/root:a/baselines/x", nil},
		"a namespace without an object":          {"/dataplane/clusters/root:a/namespaces/default", nil},
		"a namespace named with a dot":           {"/dataplane/clusters/root:a/namespaces/a.b/sandboxrunners/demo/log", nil},
		"a query with a broken escape":           {object + "log?a=%zz", nil},
		"a query that ends within an escape":     {object + "log?a=%2", nil},
		"a query with a space":                   {object + "log?a b", nil}, // HTTP/2 can carry one
		"a query of an app with a broken escape": {object + "proxy?q=100%&a=%zz", with(func(r *Route) { r.Verb, r.Prefix = "proxy", object+"proxy" })},
		"a query of an app with a space":         {object + "proxy?a b", nil},
		"a thousand parameters":                  {object + "log?" + strings.Repeat("a&", 1000), &base},
		"a path with a space":                    {object + "proxy/a b", with(func(r *Route) { r.Verb, r.Prefix, r.Tail = "proxy", object+"proxy", "/a%20b" })},
		"a tail in an encoding that net/url does not use": {object + "proxy/a%2Fb|c^[d]\"\u00e4", with(func(r *Route) {
			r.Verb, r.Prefix, r.Tail = "proxy", object+"proxy", "/a%2Fb|c^[d]\"\u00e4"
		})},
		"a tail that climbs beside such characters": {object + "proxy/a|b/%2e%2e/c", nil},
		"a service with characters that end a header's part": {"/services/a\"|%3bb/clusters/root:a/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo/proxy/a|b", with(func(r *Route) {
			r.Verb, r.Tail, r.Prefix = "proxy", "/a|b", "/services/a%22%7C%3bb/clusters/root:a/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo/proxy"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			in := asking(c.path)
			if in == nil {
				t.Fatal("net/http would not read it")
			}
			got, refused := Router{Prefix: "/hub/x"}.Parse(in)
			if c.want == nil {
				if refused == nil || refused.Code != http.StatusBadRequest {
					t.Errorf("got %+v, %v; want a 400", got, refused)
				}
				return
			}
			if refused != nil {
				t.Fatalf("refused: %s", refused.Message)
			}
			if diff := cmp.Diff(*c.want, got, cmp.AllowUnexported(Route{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// asking is a request for a target as net/http reads it; nil if it reads none.
func asking(target string) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	return &http.Request{RequestURI: target, URL: u}
}

// All that a browser sends gets to an app as it is, up to a number of bytes.
func TestATargetIsBoundedInBytes(t *testing.T) {
	const path = "/dataplane/clusters/root:a/sandboxrunners/demo/proxy"
	fill := strings.Repeat("x", maxTargetBytes-len(path)-1)
	for name, c := range map[string]struct {
		target string
		code   int
	}{
		"as long as may be":        {path + "/" + fill, 0},
		"a path that is too long":  {path + "/" + fill + "x", http.StatusRequestURITooLong},
		"a query as long":          {path + "?" + fill + "x", 0},
		"a query that is too long": {path + "?" + fill + "xx", http.StatusRequestURITooLong},
	} {
		t.Run(name, func(t *testing.T) {
			_, refused := Router{}.Parse(asking(c.target))
			if c.code == 0 {
				if refused != nil {
					t.Errorf("refused: %s", refused.Message)
				}
				return
			}
			if refused == nil || refused.Code != c.code || !strings.Contains(refused.Message, strconv.Itoa(maxTargetBytes)) {
				t.Errorf("got %+v", refused)
			}
		})
	}
	var onPreview Route
	if refused := onPreview.SetTail(asking("/" + fill + path + "x")); refused == nil || refused.Code != http.StatusRequestURITooLong {
		t.Errorf("a preview's: %+v", refused)
	}
}

func TestTheAbsoluteFormOfATargetIsReadToo(t *testing.T) {
	const path = "/dataplane/clusters/root:a/sandboxrunners/demo/proxy"
	got, refused := Router{}.Parse(asking("http://host.example" + path + "/a%2Fb?q=1"))
	if refused != nil || got.Tail != "/a%2Fb" || got.Prefix != path {
		t.Errorf("got %+v, %v", got, refused)
	}
}

// FuzzParse holds the path grammar to what follows steps rely on: addressing that is plain, and
// a tail that stays below the endpoint however often it is decoded and cleaned.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"/dataplane/clusters/root:a/sandboxrunners/demo/log", "/dataplane/clusters/root:a/namespaces/n/sandboxrunners/demo/components/api/log/x?y=z",
		"/services/any/clusters/a/apis/g.io/v1/namespaces/n/r/n/proxy/%2e%2e/x", "/dataplane/clusters/a/templates",
		"/dataplane/clusters/a/r/n/proxy/..%2f..;x/%5c..", "/dataplane/clusters/a/r/n/proxy/%25%32%65%252e/", "//dataplane/clusters/a/r/n/v",
		"/dataplane/clusters/a/r/n/ports/8080/proxy/x", "/dataplane/clusters/a/r/n/components/c/ports/a-b/proxy",
		"/dataplane/clusters/a/r/n/proxy/a%2Fb|c?q=100%", "/services/a\"|b/clusters/a/apis/g.io/v1/namespaces/n/r/n/proxy/|",
		"/dataplane/clusters/a/r/n/proxy/%c0%ae%c0%ae/", "/hub/x/dataplane/clusters/a/r/n/v/;/../",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		in := asking(raw)
		if in == nil {
			return
		}
		r, refused := Router{Prefix: "/hub/x"}.Parse(in)
		if refused != nil {
			return
		}
		addressing := []string{r.Namespace, r.Group, r.Version}
		if r.Catalogue == "" {
			addressing = append(addressing, r.Resource, r.Name, r.Verb)
		}
		if r.Port != "" {
			addressing = append(addressing, r.Port)
		}
		for _, s := range append(addressing, strings.Split(r.Workspace, ":")...) {
			if !isSubdomain(s) || strings.Contains(s, "..") || strings.ContainsAny(s, "/%\\") {
				t.Errorf("%q let %q through", raw, s)
			}
		}
		if r.Catalogue != "" {
			return
		}
		prefix, err := url.PathUnescape(r.Prefix)
		if tail, bad := url.PathUnescape(r.Tail); err != nil || bad != nil || prefix+tail != in.URL.Path || !strings.HasSuffix(rawPath(in), r.Tail) {
			t.Errorf("%q: prefix %q and tail %q are not the path", raw, r.Prefix, r.Tail)
		}
		if strings.ContainsFunc(r.Prefix, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", c) }) {
			t.Errorf("%q: the prefix %q is not fit for a header", raw, r.Prefix)
		}
		for _, base := range []*url.URL{{Scheme: "http", Host: "p.s.n"}, {Scheme: "http", Host: "api", Path: "/api/v1/namespaces/n/services/s:p/proxy"}} {
			up := (&Target{upstreamPath: "/logs"}).URL(*base, r.Tail, in.URL)
			want := base.Path + "/logs"
			if !strings.HasSuffix(up.Opaque, r.Tail) {
				t.Fatalf("%q: %q is sent, which is not the tail as it came", raw, up.Opaque)
			}
			for s, round := up.Opaque, 0; round < 3; round++ {
				for _, form := range []string{s, strings.ReplaceAll(s, "\\", "/")} {
					if clean := path.Clean(form); clean != want && !strings.HasPrefix(clean, want+"/") {
						t.Fatalf("%q climbs out of %s: %s", raw, want, clean)
					}
				}
				if s, err = url.PathUnescape(s); err != nil {
					break
				}
			}
		}
	})
}
