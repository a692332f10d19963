// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxyrules

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/route"
	"github.com/sandbar-dev/sandbar/pkg/route/conformance"
)

// FuzzBaggage compares with the expression that the other providers get.
func FuzzBaggage(f *testing.F) {
	for _, c := range conformance.BaggageOf(ownID, otherID) {
		f.Add(strings.Join(c.Lines, "\n"))
	}
	f.Add("sandbox=" + ownID + ";,sandbox")
	f.Add("sandbox=" + ownID + "\t \t;=,")
	f.Add("\xff,sandbox=" + ownID + ",\xfe")
	selector, err := route.Selector("baggage", ownID)
	if err != nil {
		f.Fatal(err)
	}
	want := regexp.MustCompile(selector.Value)
	table := parse(f, document(ruleFor(ownID, "copy:80", routeMatch{})))
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Split(text, "\n") // a line's end is in no header
		joined := strings.Join(lines, ",")
		if got := pick(t, table, request(t, "GET", "/", http.Header{"Baggage": lines})) != ""; got != want.MatchString(joined) {
			t.Errorf("%q: picked %t, and the expression says %t", lines, got, !got)
		}
	})
}

// FuzzParse looks for documents that end the process, and for those that are compiled to something else than they say.
func FuzzParse(f *testing.F) {
	raw, err := json.Marshal(document(ruleFor(ownID, "a:80", path("RegularExpression", "/a|b")), ruleFor(otherID, "b:80", routeMatch{})))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw, "/a?b=c", "sandbox="+ownID)
	f.Add([]byte(`{"service":"shop","ports":[{"listen":1,"baseline":"a:1","protocol":"TCP"}]}`), "/", "")
	f.Fuzz(func(t *testing.T, document []byte, target, baggage string) {
		config, table, err := Parse(document, service)
		if err != nil {
			return
		}
		if len(config.Ports) == 0 || table.Rules != len(config.Rules) {
			t.Errorf("%d ports and %d rules of %d", len(config.Ports), table.Rules, len(config.Rules))
		}
		if !strings.HasPrefix(target, "/") || strings.ContainsAny(target, " \x00\x7f") {
			return
		}
		r := &http.Request{Method: http.MethodGet, RequestURI: target, Header: http.Header{"Baggage": {baggage}}}
		backend, err := table.Pick(r)
		if err == nil && backend != nil && (!table.Leads(backend.Address) || !table.LeadsSandbox(backend.Sandbox, backend.Address)) {
			t.Errorf("%s is not an address of the document", backend.Address)
		}
		delete(r.Header, "Baggage")
		if backend, _ := table.Pick(r); backend != nil {
			t.Error("a request without an ID is led to a copy")
		}
	})
}
