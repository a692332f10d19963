// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
)

// matchesOf is a route of a workspace with some matches, each with a value of some bytes.
func matchesOf(t *testing.T, cluster, uid string, created int64, n, bytes int) *Intent {
	t.Helper()
	all := make([]string, 0, n)
	for i := range n {
		all = append(all, fmt.Sprintf("{path: {value: /%s%d}}", strings.Repeat("x", bytes), i))
	}
	intent := intentOf(t, uid, "sbx-aaaaaaaa", created, "[{name: all, matches: ["+strings.Join(all, ", ")+"], backends: [{component: {name: web, port: 80}}]}]")
	intent.Route.Cluster = cluster
	return intent
}

func TestTheRoutesOfAWorkspaceHaveAShareOfADocument(t *testing.T) {
	for name, c := range map[string]struct {
		n, bytes int
		says     string
	}{
		"of its rules": {MaxTenantRules * 2 / 3, 0, fmt.Sprintf("more than the %d rules that it may have", MaxTenantRules)},
		"of its bytes": {30, 600, fmt.Sprintf("more than the %d bytes that it may have", MaxTenantBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			intents := []*Intent{
				matchesOf(t, "greedy", "a", 1, c.n, c.bytes), matchesOf(t, "greedy", "b", 2, c.n, c.bytes), matchesOf(t, "greedy", "c", 3, 1, 0), matchesOf(t, "other", "d", 4, c.n, c.bytes),
			}
			doc := documentOf(serviceOf(t, "{}"), nil, intents, nil)
			if !strings.Contains(doc.Refused["b"], c.says) || len(doc.Refused) != 1 || !slices.Equal(slices.Sorted(maps.Keys(doc.Applied)), []types.UID{"a", "c", "d"}) {
				t.Errorf("%v; refused: %v", doc.Applied, doc.Refused)
			}
		})
	}
}

// Four workspaces have all the rules that there are but for those of a route that is older than theirs, and grows.
func TestARouteThatGrowsTakesNothingFromOthers(t *testing.T) {
	service, whole := serviceOf(t, "{}"), wire.MaxRules/4
	intents := []*Intent{matchesOf(t, "0", "0", 0, 1, 0)}
	for i, n := range []int{whole, whole, whole, whole - 1} {
		name := strconv.Itoa(i + 1)
		intents = append(intents, matchesOf(t, name, name, int64(i+1), n, 0))
	}
	before := documentOf(service, nil, intents, nil)
	if len(before.Refused) > 0 {
		t.Fatalf("%v", before.Refused)
	}
	intents[0] = matchesOf(t, "0", "0", 0, 2, 0)
	grown := documentOf(service, nil, intents, before.Applied)
	if len(grown.Refused) != 1 || grown.Refused["0"] == "" {
		t.Errorf("those without room are %v", grown.Refused)
	}
	// One that has changed, and needs no more, goes before one that is new, though that is older.
	intents[1] = matchesOf(t, "1", "1", 1, whole, 1)
	changed := documentOf(service, nil, intents, grown.Applied)
	if len(changed.Refused) != 1 || changed.Refused["0"] == "" || changed.Applied["1"] != intents[1].Hash() {
		t.Errorf("those without room are %v", changed.Refused)
	}
	if again := documentOf(service, nil, intents, changed.Applied); again.Text != changed.Text || !maps.Equal(again.Applied, changed.Applied) {
		t.Error("it is not quiet")
	}
	if switched := documentOf(service, nil, intents, nil); len(switched.Refused) != 1 || switched.Refused["4"] == "" {
		t.Errorf("without proxies age alone counts: %v", switched.Refused)
	}
}

func TestTheSizesOfWhatRoutesSay(t *testing.T) {
	a, b := matchesOf(t, "c1", "a", 1, 3, 0), matchesOf(t, "c2", "b", 1, 2, 0)
	state := State{Reason: "X"}
	data := map[string]string{"web.a": a.Encode(), "api.b": b.Encode(), "web.state": state.Encode(), "web.x": "{"}
	all, share := Sizes(data, "", "c1")
	if want := len("web.a") + len(a.Encode()); share != want || all != want+len("api.b")+len(b.Encode())+len("web.state")+len(state.Encode())+len("web.x{") {
		t.Errorf("%d of %d", share, all)
	}
	if but, share := Sizes(data, "web.a", "c1"); share != 0 || but != all-len("web.a")-len(a.Encode()) {
		t.Errorf("without one of them %d of %d", share, but)
	}
}
