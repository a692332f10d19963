// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func namesOf(t *testing.T, name string) Names {
	t.Helper()
	names, err := NamesOf(name)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Names that came out otherwise would leave everything of a provider behind on its runtime cluster.
func TestTheNamesOfAProvider(t *testing.T) {
	for name, want := range map[string][]string{
		"":     {"sandbar", "sandbar-system", "sandbar-netcheck", "sandbar.dev", "sandbox"},
		"blue": {"sandbar-blue", "sandbar-blue-system", "sandbar-blue-netcheck", "blue.sandbar.dev", "blue-sandbox"},
	} {
		names := namesOf(t, name)
		got := []string{names.Prefix(), names.SystemNamespace(), names.NetworkCheckNamespace(), names.Group(), names.Graph("sandbox")}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
		if NamesIn(names.SystemNamespace()) != names {
			t.Errorf("%q: its own namespace does not say its name", name)
		}
		if names.TemplateNamed(names.Graph("sandbox")) != "sandbox" {
			t.Errorf("%q: its graph does not say its Template", name)
		}
		if !regexp.MustCompile(SystemNamespaces).MatchString(names.SystemNamespace()) || !regexp.MustCompile(Groups).MatchString(names.Group()) {
			t.Errorf("%q: the policies of the runtime cluster do not know its names", name)
		}
	}
}

func TestWhatIsNoNameOfAProvider(t *testing.T) {
	for _, name := range []string{"Blue", "a-b", "1a", "a.b", strings.Repeat("a", MaxProviderName+1), " "} {
		if _, err := NamesOf(name); !errors.Is(err, ErrProviderName) {
			t.Errorf("%q: error %v", name, err)
		}
	}
	if names := namesOf(t, strings.Repeat("a", MaxProviderName)); NamesIn(names.SystemNamespace()) != names {
		t.Error("the longest name is not found again")
	}
	for _, namespace := range []string{"", "default", "sandbar-system", "kube-system", "sandbar--system", "sandbar-a-b-system", "sandbar-blue-netcheck"} {
		if names := NamesIn(namespace); names != (Names{}) {
			t.Errorf("namespace %q is of the provider %q", namespace, names)
		}
		if namespace != SystemNamespace && regexp.MustCompile(SystemNamespaces).MatchString(namespace) {
			t.Errorf("the policies take %q for a provider's own namespace", namespace)
		}
	}
	for _, group := range []string{"a.b.sandbar.dev", "xsandbar.dev", "sandbar.dev.test", "sandbarxdev"} {
		if regexp.MustCompile(Groups).MatchString(group) {
			t.Errorf("the policies take %q for a provider's group", group)
		}
	}
}

// A provider that took another's graph for its own would compose that one's tenants with its own settings, or delete
// their kind.
func TestAGraphIsOfOneProvider(t *testing.T) {
	for _, owner := range []string{"", "blue", "green"} {
		graph := &metav1.ObjectMeta{Labels: namesOf(t, owner).GraphLabels("sandbox")}
		for _, caller := range []string{"", "blue", "green"} {
			want := ""
			if caller == owner {
				want = "sandbox"
			}
			if got := namesOf(t, caller).TemplateOf(graph); got != want {
				t.Errorf("to %q the graph of %q is of Template %q", caller, owner, got)
			}
		}
	}
	if got := (Names{}).TemplateOf(&metav1.ObjectMeta{Labels: map[string]string{LabelTemplate: "sandbox"}}); got != "" {
		t.Errorf("a graph that no provider manages is of Template %q", got)
	}
	if got := namesOf(t, "blue").TemplateNamed("sandbox"); got != "" {
		t.Errorf("the graph of the provider without a name is of Template %q", got)
	}
}
