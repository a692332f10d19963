// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
)

// hubCookies are names of cookies, or beginnings of names that end in an asterisk. A hub that serves
// the data plane on its own host is sent its session by browsers with every request, and one whose
// cookies have a Domain above the previews' is sent it there; an app that read it would be its
// users.
type hubCookies []string

// strip takes the hub's cookies from a header.
func (c hubCookies) strip(h http.Header) {
	if len(c) == 0 || h["Cookie"] == nil {
		return
	}
	if kept := preview.Without(h["Cookie"], c.has); kept != nil {
		h["Cookie"] = kept
	} else {
		delete(h, "Cookie")
	}
}

// has compares without case, as some apps do.
func (c hubCookies) has(name string) bool {
	for _, hub := range c {
		beginning, open := strings.CutSuffix(hub, "*")
		if strings.EqualFold(name, hub) || open && len(name) >= len(beginning) && strings.EqualFold(name[:len(beginning)], beginning) {
			return true
		}
	}
	return false
}

func (c hubCookies) validate() error {
	for _, hub := range c {
		if name := strings.TrimSuffix(hub, "*"); hub == "" || name != "" && !httpguts.ValidHeaderFieldName(name) || strings.Contains(name, "*") {
			return fmt.Errorf("hub-cookies %q is neither the name of a cookie nor the beginning of one with an asterisk behind", hub)
		}
	}
	return nil
}
