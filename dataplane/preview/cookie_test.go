// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheCookieStaysOnItsHostAndWithTheBrowser(t *testing.T) {
	const want = "__Host-sandbar-preview=s; Path=/; Max-Age=3600; HttpOnly; Secure; SameSite=None; Partitioned"
	if got := Cookie("s", time.Hour).String(); got != want {
		t.Errorf("got %s", got)
	}
}

func TestASessionThatNoBrowserKeepsDoesNotFit(t *testing.T) {
	most := MaxCookieBytes - len(CookieName) - 1
	if !Fits(strings.Repeat("s", most)) || Fits(strings.Repeat("s", most+1)) {
		t.Error("the limit is elsewhere")
	}
}

func TestTheSessionIsFoundAndTakenAway(t *testing.T) {
	for name, c := range map[string]struct {
		cookies  []string
		sessions []string
		kept     []string
	}{
		"no cookies":                    {nil, nil, nil},
		"ours alone":                    {[]string{CookieName + "=s"}, []string{"s"}, nil},
		"ours among others":             {[]string{"a=1; " + CookieName + "=s; b=2"}, []string{"s"}, []string{"a=1; b=2"}},
		"in several headers":            {[]string{"a=1", CookieName + "=s", "b=2"}, []string{"s"}, []string{"a=1; b=2"}},
		"without spaces":                {[]string{"a=1;" + CookieName + "=s;b=2"}, []string{"s"}, []string{"a=1; b=2"}},
		"with odd spaces":               {[]string{"a=1;\t " + CookieName + " = s ; b=2"}, nil, []string{"a=1; b=2"}},
		"in lower case":                 {[]string{"__host-sandbar-preview=s; a=1"}, nil, []string{"a=1"}},
		"without a value":               {[]string{CookieName + "; a=1"}, nil, []string{"a=1"}},
		"twice":                         {[]string{CookieName + "=s; " + CookieName + "=t"}, []string{"s", "t"}, nil},
		"too often":                     {[]string{strings.Repeat(CookieName+"=s; ", 9)}, []string{"s", "s", "s", "s"}, nil},
		"a name that only begins so":    {[]string{CookieName + "-x=s"}, nil, []string{CookieName + "-x=s"}},
		"a value that looks like ours":  {[]string{"a=" + CookieName + "=s"}, nil, []string{"a=" + CookieName + "=s"}},
		"cookies without a name remain": {[]string{"x; a=1; =y"}, nil, []string{"x; a=1; =y"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.sessions, Sessions(http.Header{"Cookie": c.cookies})); diff != "" {
				t.Error("found:", diff)
			}
			if diff := cmp.Diff(c.kept, withoutSession(c.cookies)); diff != "" {
				t.Error("kept:", diff)
			}
		})
	}
}

func TestAPodsCookiesStayOnTheirHost(t *testing.T) {
	for in, want := range map[string]string{
		"a=1": "a=1",
		"a=1; Path=/app; HttpOnly; Secure; SameSite=Lax": "a=1; Path=/app; HttpOnly; Secure; SameSite=Lax",
		"a=1; Domain=preview.example.com; Path=/":        "a=1; Path=/",
		"a=1; DOMAIN = x;":                               "a=1",
		"a=1;domain":                                     "a=1",
		"__Host-app=1; Secure; Path=/":                   "__Host-app=1; Secure; Path=/",
		// Ours, in ways that some reader may take for it.
		"__Host-sandbar-preview=evil; Secure; Path=/": "",
		"__HOST-Sandbar-Preview=evil":                 "",
		" __Host-sandbar-preview =evil":               "",
		"=__Host-sandbar-preview=evil":                "",
		"__Host-sandbar-preview":                      "",
		"\u00a0__Host-sandbar-preview=evil":           "",
		"nameless":                                    "",
		"":                                            "",
	} {
		got := Confine([]string{in})
		if want == "" && len(got) > 0 || want != "" && !slices.Equal(got, []string{want}) {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// FuzzCookies holds that no session passes to a pod, and none comes from one.
func FuzzCookies(f *testing.F) {
	f.Add("a=1; " + CookieName + "=s; b=2")
	f.Add("a=1; Domain=example.com; Path=/")
	f.Add("\t__host-SANDBAR-preview = x;;=" + CookieName + "=y")
	f.Fuzz(func(t *testing.T, line string) {
		for _, kept := range withoutSession([]string{line}) {
			if found := Sessions(http.Header{"Cookie": {kept}}); len(found) > 0 {
				t.Fatalf("%q still has the sessions %q", line, found)
			}
			if again := withoutSession([]string{kept}); !slices.Equal(again, []string{kept}) {
				t.Fatalf("%q is filtered to %q, then to %q", line, kept, again)
			}
			if cookies, err := http.ParseCookie(kept); err == nil {
				for _, c := range cookies {
					if strings.EqualFold(c.Name, CookieName) {
						t.Fatalf("%q still has %q", line, c.Name)
					}
				}
			}
		}
		for _, kept := range Confine([]string{line}) {
			c, err := http.ParseSetCookie(kept)
			if err != nil {
				continue
			}
			if strings.EqualFold(c.Name, CookieName) || c.Domain != "" {
				t.Fatalf("%q sets %q for %q", line, c.Name, c.Domain)
			}
		}
	})
}

func withoutSession(cookies []string) []string {
	return Without(cookies, func(name, _ string) bool { return isOurs(name) })
}
