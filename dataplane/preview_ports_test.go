// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
)

func TestEachPortOfAPodHasAPreviewOfItsOwn(t *testing.T) {
	w := newPreviewWorld(t, recorder(), podVerbs)
	_, port, err := net.SplitHostPort(portOf(w))
	if err != nil {
		t.Fatal(err)
	}
	res, body := w.do(http.MethodPost, demo+"ports/"+port+"/proxy-url", adminToken, strings.NewReader(`{"path":"/some/page"}`))
	var answer preview.Response
	if err := json.Unmarshal([]byte(body), &answer); err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("asking for a link: %d %s (%v)", res.StatusCode, body, err)
	}
	link, err := url.Parse(answer.URL)
	if err != nil || link.Host != port+"-"+previewHost {
		t.Fatalf("the link leads to %s (%v)", answer.URL, err)
	}
	visit := func(host, path, session string) (*http.Response, string) {
		changes := []func(*http.Request){onHost(host), navigating}
		if session != "" {
			changes = append(changes, with("Cookie", preview.CookieName+"="+session))
		}
		return w.do(http.MethodGet, path, "", nil, changes...)
	}
	res, body = visit(link.Host, link.RequestURI(), "")
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("entering: %d %s", res.StatusCode, body)
	}
	session := res.Cookies()[0].Value
	res, body = visit(link.Host, "/some/page", session)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "/some/page") {
		t.Errorf("the page is %d %s", res.StatusCode, body)
	}
	// Were a session sealed for a host that is not its port's, the claims would still not agree.
	crossed := sealed(t, preview.Session, link.Host, func(c *preview.Claims) { c.Port = "1" })
	if res, body := visit(link.Host, "/some/page", crossed); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a session of another port opens this one's host: %d %s", res.StatusCode, body)
	}
	for _, host := range []string{"1-" + previewHost, previewHost, "api--" + port + "-" + previewHost} {
		if res, body := visit(host, "/some/page", session); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("the session opens %s: %d %s", host, res.StatusCode, body)
		}
	}
}

func TestWhichPortsHaveNoPreview(t *testing.T) {
	anyPort, oneService := newPreviewWorld(t, recorder(), podVerbs), newPreviewWorld(t, recorder())
	for name, c := range map[string]struct {
		w    *world
		path string
		code int
		says string
	}{
		"none is named":                  {anyPort, "proxy-url", 400, "ports/<number>/proxy-url"},
		"a name, which may change":       {anyPort, "ports/http/proxy-url", 400, "by its number"},
		"one of a kind that has one":     {oneService, "ports/8080/proxy-url", 404, "no such instance or verb"},
		"one of a component that is not": {anyPort, "components/api/ports/80/proxy-url", 404, "no such instance or verb"},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := c.w.do(http.MethodPost, demo+c.path, adminToken, strings.NewReader("{}"))
			if status := wantStatus(t, res, body, c.code); !strings.Contains(status.Message, c.says) {
				t.Errorf("it says %q", status.Message)
			}
		})
	}
}
