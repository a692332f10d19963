// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

func newTestLimiter(t *testing.T, change func(*Limits)) *Limiter {
	t.Helper()
	var limits Limits
	limits.SetDefaults()
	change(&limits)
	l, err := NewLimiter(func() *Limits { return &limits })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLimitsInFlight(t *testing.T) {
	type call struct {
		workspace, instance string
		stream              bool
	}
	for name, c := range map[string]struct {
		held    []call
		next    call
		refused string // the cause, or empty
	}{
		"below an instance's limit":                   {[]call{{"w", "i", false}}, call{"w", "i", false}, ""},
		"at an instance's limit":                      {[]call{{"w", "i", false}, {"w", "i", false}}, call{"w", "i", false}, refusal.CauseInFlight},
		"another instance of the workspace":           {[]call{{"w", "i", false}, {"w", "i", false}}, call{"w", "j", false}, ""},
		"at a workspace's limit":                      {[]call{{"w", "i", false}, {"w", "i", false}, {"w", "j", false}}, call{"w", "k", false}, refusal.CauseInFlight},
		"another workspace":                           {[]call{{"w", "i", false}, {"w", "i", false}, {"w", "j", false}}, call{"v", "k", false}, ""},
		"streams have slots of their own":             {[]call{{"w", "i", false}, {"w", "i", false}}, call{"w", "i", true}, ""},
		"at an instance's limit of streams":           {[]call{{"w", "i", true}}, call{"w", "i", true}, refusal.CauseStreams},
		"at a workspace's limit of streams":           {[]call{{"w", "i", true}, {"w", "j", true}}, call{"w", "k", true}, refusal.CauseStreams},
		"an instance named like a workspace is apart": {[]call{{"i", "x", true}, {"i", "y", true}}, call{"w", "i", true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestLimiter(t, func(l *Limits) {
				l.InstanceRequests, l.WorkspaceRequests, l.InstanceStreams, l.WorkspaceStreams = 2, 3, 1, 2
			})
			var releases []func()
			for _, held := range c.held {
				release, refused := l.Admit(held.workspace, held.instance, held.stream)
				if refused != nil {
					t.Fatal(refused)
				}
				releases = append(releases, release)
			}
			release, refused := l.Admit(c.next.workspace, c.next.instance, c.next.stream)
			if c.refused == "" {
				if refused != nil {
					t.Fatalf("refused: %v", refused)
				}
				releases = append(releases, release)
			} else if refused == nil || refused.Cause != c.refused || refused.Code != 429 || refused.RetryAfter <= 0 {
				t.Errorf("got %+v, want a 429 for %s", refused, c.refused)
			}
			for _, release := range releases {
				release()
				release() // a second call must not free another's slot
			}
			if l.UnderWay() != 0 {
				t.Errorf("left in memory: %d", l.UnderWay())
			}
		})
	}
}

func TestLimitOfRate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Limits)
		named  string
		// others have a rate of their own.
		others []string
	}{
		"a workspace's": {
			func(l *Limits) { l.WorkspaceRate, l.WorkspaceBurst = 10, 3 },
			"the workspace starts more than 10 requests per second (3 at once)",
			[]string{"v/i", "v/w"},
		},
		"an instance's, of which its workspace's others keep theirs": {
			func(l *Limits) { l.InstanceRate, l.InstanceBurst, l.WorkspaceBurst = 10, 3, 5 },
			"the instance gets more than 10 requests per second (3 at once)",
			[]string{"w/j", "w/w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestLimiter(t, c.change)
				start := func(workspaceAndInstance string) *refusal.Error {
					workspace, instance, _ := strings.Cut(workspaceAndInstance, "/")
					release, refused := l.Admit(workspace, instance, false)
					if refused == nil {
						release()
					}
					return refused
				}
				for range 3 {
					if refused := start("w/i"); refused != nil {
						t.Fatal(refused)
					}
				}
				var refused *refusal.Error
				for range 10 { // which cost nobody anything
					if refused = start("w/i"); refused == nil || refused.Cause != refusal.CauseRate || !strings.Contains(refused.Message, c.named) {
						t.Fatalf("got %+v, want a refusal that names the rate", refused)
					}
				}
				for _, other := range c.others {
					if refused := start(other); refused != nil {
						t.Errorf("%s is refused: %v", other, refused)
					}
				}
				time.Sleep(refused.RetryAfter)
				if refused := start("w/i"); refused != nil {
					t.Errorf("refused after waiting as told: %v", refused)
				}
			})
		})
	}
}

func TestClaimsHaveRatesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(t, func(l *Limits) {
			l.CallerClaimRate, l.CallerClaimBurst, l.WorkspaceClaimRate, l.WorkspaceClaimBurst = 1, 2, 2, 3
		})
		one, other := [32]byte{1}, [32]byte{2}
		admitted := func(workspace string, caller [32]byte, want string) {
			t.Helper()
			switch refused := l.AdmitClaim(workspace, caller); {
			case refused == nil && want != "", refused != nil && (want == "" || !strings.Contains(refused.Message, want)):
				t.Errorf("it was told %v, want %q", refused, want)
			case refused != nil && (refused.Cause != refusal.CauseClaimRate || refused.RetryAfter <= 0):
				t.Errorf("%+v", refused)
			}
		}
		admitted("w", one, "")
		admitted("w", one, "")
		admitted("w", one, "you claim more than 1 Sandboxes per second (2 at once)")
		admitted("v", one, "you claim more than 1") // in another workspace too
		admitted("w", other, "")                    // the caller's refusals have cost the workspace nothing
		admitted("w", other, "more than 2 Sandboxes per second (3 at once) are claimed in the workspace")
		admitted("v", [32]byte{3}, "")
		time.Sleep(time.Second)
		admitted("w", one, "")
		if release, refused := l.Admit("w", "i", false); refused != nil {
			t.Errorf("other requests: %v", refused)
		} else {
			release()
		}
	})
}
