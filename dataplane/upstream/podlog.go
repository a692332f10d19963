// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/url"
	"strconv"
	"strings"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// podLogQuery makes the query for a Pod's log from the caller's. Only what is named here passes,
// under the names that the runner's log has as well, and the container.
func podLogQuery(in url.Values, to *locate.Target) (url.Values, *refusal.Error) {
	out := url.Values{}
	if stream := in.Get(logwire.ParamStream); stream != "" && stream != logwire.AllStreams {
		return nil, refusal.Malformed("a pod's log does not tell stdout from stderr: leave stream out")
	}
	for _, name := range []string{logwire.ParamFollow, logwire.ParamTimestamps} {
		if !in.Has(name) {
			continue
		}
		value, err := strconv.ParseBool(in.Get(name))
		if err != nil {
			return nil, refusal.Malformed(name + " must be true or false")
		}
		out.Set(name, strconv.FormatBool(value))
	}
	for name, upstream := range map[string]string{logwire.ParamTail: "tailLines", logwire.ParamSince: "sinceSeconds"} {
		if !in.Has(name) {
			continue
		}
		text := in.Get(name)
		if name == logwire.ParamSince {
			text = strings.TrimSuffix(text, "s") // the runner's log wants a unit
		}
		value, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, refusal.Malformed(name + " must be a number that is not negative")
		}
		out.Set(upstream, strconv.FormatUint(value, 10))
	}
	if out.Get("sinceSeconds") == "0" {
		out.Del("sinceSeconds") // the API server refuses 0, which says nothing anyway
	}
	container, refused := to.ChooseContainer(in.Get("container"))
	if refused != nil {
		return nil, refused
	}
	out.Set("container", container)
	return out, nil
}
