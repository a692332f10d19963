// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyTheBrowserKeepsAnAnswer(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "private",
		"no-cache":                           "private, no-cache",
		"no-store":                           "private, no-store",
		"public, max-age=31536000":           "private, max-age=31536000",
		"Public,S-MaxAge=60, immutable":      "private, immutable",
		"private":                            "private",
		`max-age=1, no-cache="a, b", pUBLIC`: `private, max-age=1, no-cache="a, b"`,
		"public\t;x, s-maxage =1":            "private, public\t;x",
	} {
		h := http.Header{}
		if in != "" {
			h.Set("Cache-Control", in)
		}
		KeepPrivate(h)
		if got := h.Get("Cache-Control"); got != want || len(h) != 1 {
			t.Errorf("%q becomes %q; %v", in, got, h)
		}
	}
}

func TestOrdersInABodyForPushpinAreABody(t *testing.T) {
	for in, want := range map[string]string{
		"application/grip-instruct":            "application/octet-stream",
		"Application/GRIP-Instruct; charset=x": "application/octet-stream",
		"application/json":                     "application/json",
	} {
		h := http.Header{"Content-Type": {in}}
		if stripAnswer(h, true); h.Get("Content-Type") != want {
			t.Errorf("%s becomes %s", in, h.Get("Content-Type"))
		}
	}
}

// docs/headers.md holds the tables as they are here. SANDBAR_UPDATE=1 writes it.
func TestTheDocumentHoldsTheTablesOfHeaders(t *testing.T) {
	const file = "../../docs/headers.md"
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(doc)
	for name, table := range map[string][]known{"request headers": withheldHeaders, "cookies": withheldCookies, "answer headers": withheldAnswers} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end -->\n"
		before, rest, ok := strings.Cut(want, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no place for the table of %s", file, name)
		}
		by := map[string]string{"request headers": "added by", "cookies": "set by", "answer headers": "obeyed by"}[name]
		var rows strings.Builder
		fmt.Fprintf(&rows, "| name | %s |\n| --- | --- |\n", by)
		for _, k := range table {
			fmt.Fprintf(&rows, "| `%s` | %s |\n", k.name, k.by)
		}
		want = before + begin + rows.String() + end + after
	}
	if os.Getenv("SANDBAR_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(doc)); diff != "" {
		t.Errorf("%s is stale; SANDBAR_UPDATE=1 go test -run %s ./dataplane/headers writes it (-want +got):\n%s", file, t.Name(), diff)
	}
}
