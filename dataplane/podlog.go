// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// podLogQuery makes the query for a Pod's log from the caller's. Only what is named here passes,
// under the names that the runner's log has as well; the container is the contract's.
func podLogQuery(r route, in url.Values, to *target) (url.Values, *refusal) {
	if r.tail != "" && r.tail != "/" {
		return nil, malformed("this log has no paths below it")
	}
	out := url.Values{}
	for _, name := range []string{"follow", "timestamps"} {
		if !in.Has(name) {
			continue
		}
		value, err := strconv.ParseBool(in.Get(name))
		if err != nil {
			return nil, malformed(name + " must be true or false")
		}
		out.Set(name, strconv.FormatBool(value))
	}
	for name, upstream := range map[string]string{"tail": "tailLines", "since": "sinceSeconds"} {
		if !in.Has(name) {
			continue
		}
		text := in.Get(name)
		if name == "since" {
			text = strings.TrimSuffix(text, "s") // the runner's log wants a unit
		}
		value, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, malformed(name + " must be a number that is not negative")
		}
		out.Set(upstream, strconv.FormatUint(value, 10))
	}
	if out.Get("sinceSeconds") == "0" {
		out.Del("sinceSeconds") // the API server refuses 0, which says nothing anyway
	}
	if to.container != "" {
		out.Set("container", to.container)
	}
	return out, nil
}

// judgePodLog replaces the API server's errors, which name namespaces and pods.
func judgePodLog(res *http.Response) *refusal {
	switch res.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusBadRequest, http.StatusNotFound:
		return notReady("the log is not there yet: wait until the instance's container has started", nil)
	}
	return badGateway(causeUnreachable, "the log cannot be read: tell the operator", errAPIServer)
}
