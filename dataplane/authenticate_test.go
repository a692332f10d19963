// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

// serviceAccount has kcp know some tokens of one service account, without rights.
func (w *world) serviceAccount(name string, tokens int) []string {
	all := make([]string, tokens)
	for i := range all {
		all[i] = fmt.Sprintf("token-%d-of-%s", i, name)
		w.kcp.set(func() { w.kcp.rights[all[i]] = map[string]bool{} })
		w.kcp.who.set(all[i], authenticationv1.UserInfo{
			Username: "system:serviceaccount:default:" + name, UID: "uid-of-" + name,
			Extra: map[string]authenticationv1.ExtraValue{"authentication.kcp.io/cluster-name": {"mallory"}},
		})
	}
	return all
}

// Seven tokens of one service account asked kcp seven times as often as one.
func TestManyTokensOfOneCallerAskNoMoreThanOne(t *testing.T) {
	const burst, requests = 20, 60
	flood := func(t *testing.T, tokens func(w *world) []string) (questions int64, codes map[int]int) {
		w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.DeniedRate, s.opts.Limits.DeniedBurst = 1, burst })
		all := tokens(w)
		before := w.kcp.questions()
		codes = map[int]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, token := range all {
			wg.Go(func() {
				for i := range requests / len(all) * 7 {
					res, _ := w.do("POST", fmt.Sprintf("%s%d", demo, i), token, nil) // each another question
					mu.Lock()
					codes[res.StatusCode]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return w.kcp.questions() - before, codes
	}
	for name, tokens := range map[string]func(w *world) []string{
		"one token":    func(w *world) []string { return w.serviceAccount("one", 1) },
		"seven tokens": func(w *world) []string { return w.serviceAccount("one", 7) },
		"seven service accounts of a workspace": func(w *world) (all []string) {
			for i := range 7 {
				all = append(all, w.serviceAccount(fmt.Sprintf("account-%d", i), 1)...)
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			questions, codes := flood(t, tokens)
			// Two to each that was let through: as many as the burst, those under way at the same time,
			// and some that came as the bucket filled. And one to each token, for whose it is.
			if most := int64(2*(burst+7+8) + 7); questions > most {
				t.Errorf("kcp was asked %d times, which is more than %d (answers: %v)", questions, most, codes)
			}
			if codes[http.StatusTooManyRequests] == 0 || codes[http.StatusForbidden] < burst || len(codes) != 2 {
				t.Errorf("answers: %v", codes)
			}
		})
	}
}

// Until it is known whose a token is, it costs one question, whatever becomes of the request, and
// however many workspaces it is used for at once.
func TestANewTokenCostsOneQuestionUntilItsOwnerIsKnown(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.DeniedRate, s.opts.Limits.DeniedBurst = 1, 1 })
	tokens := w.serviceAccount("one", 12)
	for w.do("POST", demo+"x", tokens[0], nil); ; {
		if res, _ := w.do("POST", demo+"y", tokens[0], nil); res.StatusCode == http.StatusTooManyRequests {
			break
		}
	}
	before := w.kcp.questions()
	for _, token := range tokens[2:] {
		if res, body := w.do("POST", demo+"z", token, nil); res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("another token of who is over its rate: %d %s", res.StatusCode, body)
		}
	}
	if asked := w.kcp.questions() - before; asked != int64(len(tokens)-2) {
		t.Errorf("%d new tokens took %d questions", len(tokens)-2, asked)
	}
	w.kcp.grant("new", "*")
	hold := make(chan struct{})
	w.kcp.who.change(func() { w.kcp.who.holdRoot = hold })
	before = w.kcp.who.asked.Load()
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			w.do("GET", fmt.Sprintf("/dataplane/clusters/root:ws-%d/sandboxrunners/demo/log", i), "new", nil)
		})
	}
	eventually(t, "the question is under way", func() bool { return w.kcp.who.asked.Load() > before })
	close(hold)
	wg.Wait()
	if asked := w.kcp.who.asked.Load() - before; asked != 1 {
		t.Errorf("kcp was asked %d times whose one token is", asked)
	}
}

// noes are requests by a caller who may not know what exists: whatever differs between two of them
// tells.
func noes(workspace string) map[string]func(*http.Request) {
	base := "/dataplane/clusters/" + workspace + "/sandboxrunners/demo/"
	ask := func(method, path string, change ...func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			r.Method, r.URL.Path, r.URL.RawPath = method, path, ""
			for _, c := range change {
				c(r)
			}
		}
	}
	return map[string]func(*http.Request){
		"a verb":                   ask("GET", base+"log"),
		"a verb that writes":       ask("POST", base+"sync"),
		"a verb that is not there": ask("GET", base+"nosuch"),
		"a component's verb":       ask("GET", base+"components/api/nosuch"),
		"the app":                  ask("GET", base+"proxy/x"),
		"the status":               ask("GET", base+"status"),
		"a link":                   ask("POST", base+"proxy-url"),
		"a renewal":                ask("POST", base+"renew"),
		"the catalogue":            ask("GET", "/dataplane/clusters/"+workspace+"/templates"),
		"the Baselines":            ask("GET", "/dataplane/clusters/"+workspace+"/baselines"),
		"a kind that is not there": ask("GET", "/dataplane/clusters/"+workspace+"/nosuch/demo/log"),
		"the Kubernetes form":      ask("GET", "/clusters/"+workspace+"/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/demo/log"),
		"a WebSocket": ask("GET", base+"echo", func(r *http.Request) {
			r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"websocket"}
		}),
	}
}

// Made-up tokens and good ones: what is refused is refused in the same bytes, after as many questions
// to kcp, whether there is such a workspace or not. A shard and a front proxy say different things.
func TestNoRefusalTellsWhetherThereIsAWorkspace(t *testing.T) {
	for _, front := range []bool{false, true} {
		for token, code := range map[string]int{"made-up": http.StatusUnauthorized, "stranger": http.StatusForbidden} {
			t.Run(fmt.Sprintf("%s, behind a front proxy %t", token, front), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, recorder(), func(s *setup) { s.opts.Limits.DeniedBurst = 100000 })
				w.kcp.set(func() {
					w.kcp.frontProxy = front
					w.kcp.clusters["root:unbound"], w.kcp.clusters["cluster9"] = "cluster9", "cluster9"
				})
				first := map[string]string{}
				n := 0
				for _, workspace := range []string{"root:acme:dev", "cluster1", "root:unbound", "cluster9", "root:nowhere", "nowhere"} {
					for name, request := range noes(workspace) {
						n++ // a token of its own, so that nothing is answered from a cache
						own := fmt.Sprintf("%s-%d", token, n)
						if code == http.StatusForbidden {
							w.kcp.set(func() { w.kcp.rights[own] = map[string]bool{} })
						}
						before := w.kcp.questions()
						started := time.Now()
						res, body := w.do("GET", "/", own, nil, request)
						if took := time.Since(started); took < refusalStep-5*time.Millisecond {
							t.Errorf("%s in %s took %v", name, workspace, took)
						}
						res.Header.Del("Date")
						got := fmt.Sprint(res.StatusCode, res.Header, body, " after questions: ", w.kcp.questions()-before)
						if res.StatusCode != code {
							t.Errorf("%s in %s: %s", name, workspace, got)
						}
						if want, ok := first[name]; ok && want != got {
							t.Errorf("%s in %s answers differently:\n%s\n%s", name, workspace, got, want)
						}
						first[name] = got
					}
				}
			})
		}
	}
}

// Callers who are known by name: a workspace that has not bound the export, one that has and lets
// nobody be asked about, and one where the caller has no right.
func TestNoRefusalByNameTellsWhichWorkspacesAreBound(t *testing.T) {
	w := newWorld(t, recorder())
	w.watched()
	w.kcp.bind("cluster2", fakeBinding{path: "root:careful", phase: "Bound"})
	eventually(t, "the second workspace is known", func() bool {
		_, refused := w.server.handler.authorizer.Again(t.Context(), subjectQuestion("viewer", "cluster2", "log", "get"))
		return refused != nil && refused.Cause == refusal.CauseClaim
	})
	var first string
	for _, workspace := range []string{"root:acme:dev", "cluster1", "root:careful", "cluster2", "root:nowhere", "nowhere"} {
		for _, verb := range []string{"log", "nosuch"} {
			_, refused := w.server.handler.authorizer.Authorize(t.Context(), subjectQuestion("viewer", workspace, verb, "get"))
			if refused == nil {
				t.Fatal("allowed")
			}
			got := fmt.Sprint(refused.Code, refused.Reason, refused.Message, refused.RetryAfter, refused.HidesWhatExists())
			if !strings.Contains(refused.Message, "subjectaccessreviews.authorization.k8s.io") {
				t.Errorf("%s does not say what may be missing", got)
			}
			if first == "" {
				first = got
			} else if got != first {
				t.Errorf("%s/%s: %s\n%s", workspace, verb, got, first)
			}
		}
	}
}

func TestARefusalTakesWholeSteps(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: refusalStep, time.Millisecond: refusalStep, refusalStep - 1: refusalStep, refusalStep: 2 * refusalStep, 7*refusalStep + 1: 8 * refusalStep,
	} {
		if got := took + untilStep(took); got != want {
			t.Errorf("%v becomes %v, want %v", took, got, want)
		}
	}
	for name, c := range map[string]struct {
		refused *refusal.Error
		waits   bool
	}{
		"denied": {refusal.Forbidden(), true}, "by name": {refusal.ForbiddenByName(refusal.CauseClaim), true}, "an unknown token": {refusal.Unauthorized(refusal.CauseBadIdentity), true},
		"no token": {refusal.Unauthorized(refusal.CauseNoIdentity), false}, "not there": {refusal.NotFound(refusal.CauseNoInstance), false}, "too often": {refusal.TooMany(refusal.CauseDeniedRate, "", 0), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			x := &exchange{started: time.Now(), request: request(t, "GET", "/", "")}
			time.Sleep(3 * time.Millisecond)
			x.evenOut(c.refused)
			if want := map[bool]time.Duration{true: refusalStep, false: 3 * time.Millisecond}[c.waits]; time.Since(x.started) != want {
				t.Errorf("%s took %v, want %v", name, time.Since(x.started), want)
			}
		})
	}
}

// A token that kcp no longer knows is a 401 again, although it was known.
func TestATokenThatHasEndedIsUnauthorizedAgain(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.grant("short", "get sandboxrunners", "get sandboxrunners/log")
	if res, body := w.do("GET", demo+"log", "short", nil); res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	w.kcp.set(func() { delete(w.kcp.rights, "short") })
	w.server.handler.authorizer.AgeForTest()
	for _, path := range []string{demo + "sync", "/dataplane/clusters/root:nowhere/sandboxrunners/demo/sync"} {
		res, body := w.do("POST", path, "short", nil)
		wantStatus(t, res, body, http.StatusUnauthorized)
	}
}

// With kcp's feature gate WorkspaceAuthentication a workspace has users of its own, who may be named
// like anybody else.
func TestUsersOfAWorkspaceAlone(t *testing.T) {
	local := func(s *setup) { s.opts.WorkspaceAuthentication = true }
	prepare := func(w *world) {
		w.kcp.grant("local", "get sandboxrunners", "get sandboxrunners/log")
		w.kcp.who.set("local", authenticationv1.UserInfo{Username: "alice"})
		w.kcp.set(func() { w.kcp.who.only = map[string]string{"local": "root:acme:dev"} })
	}
	t.Run("they are served", func(t *testing.T) {
		w := newWorld(t, recorder(), local)
		prepare(w)
		for range 3 {
			if res, body := w.do("GET", demo+"log", "local", nil); res.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
		}
		if n := w.kcp.who.askedIn("root:acme:dev"); n != 1 {
			t.Errorf("kcp was asked %d times there", n)
		}
		q := subjectQuestion("", "root:acme:dev", "log", "get")
		q.Caller = tenant.Bearer("local")
		if w.server.handler.authorizer.CountedForTest(t.Context(), q) == access.CountedUser("", authenticationv1.UserInfo{Username: "alice"}) {
			t.Error("the workspace's alice is counted as another alice")
		}
	})
	t.Run("and refused elsewhere, in the same way for what exists", func(t *testing.T) {
		w := newWorld(t, recorder(), local)
		prepare(w)
		w.kcp.set(func() { w.kcp.clusters["root:other"] = "cluster5" })
		for _, workspace := range []string{"root:other", "root:nowhere"} {
			res, body := w.do("GET", "/dataplane/clusters/"+workspace+"/sandboxrunners/demo/log", "local", nil)
			wantStatus(t, res, body, http.StatusUnauthorized)
		}
		if res, body := w.do("GET", demo+"log", "local", nil); res.StatusCode != http.StatusOK {
			t.Fatalf("their own workspace, after that: %d %s", res.StatusCode, body)
		}
	})
	t.Run("without the option nobody is asked for them", func(t *testing.T) {
		w := newWorld(t, recorder())
		prepare(w)
		res, body := w.do("GET", demo+"log", "local", nil)
		wantStatus(t, res, body, http.StatusUnauthorized)
		if n := w.kcp.questions(); n != 1 {
			t.Errorf("kcp was asked %d times", n)
		}
	})
}

// An operator who has closed the identity workspace loses the counting by user, and nobody access.
func TestAnIdentityWorkspaceWithoutAccess(t *testing.T) {
	w := newWorld(t, recorder())
	w.kcp.who.change(func() { w.kcp.who.nameless = map[string]bool{adminToken: true, "stranger": true} })
	w.kcp.set(func() { w.kcp.rights["stranger"] = map[string]bool{} })
	if res, body := w.do("GET", demo+"log", adminToken, nil); res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	for _, workspace := range []string{"root:acme:dev", "root:nowhere"} {
		res, body := w.do("GET", "/dataplane/clusters/"+workspace+"/sandboxrunners/demo/log", "stranger", nil)
		wantStatus(t, res, body, http.StatusForbidden)
	}
	if logs := w.logs.String(); strings.Count(logs, "--identity-workspace") != 1 {
		t.Errorf("the log says %d times what to do", strings.Count(logs, "--identity-workspace"))
	}
}

// kcp knows a new binding and its roles a moment later than the data plane, and says no until then.
// That no must not last.
func TestANoOfANewBindingIsNotKept(t *testing.T) {
	w := newWorld(t, recorder())
	w.watched()
	w.kcp.set(func() {
		w.kcp.clusters["root:fresh"], w.kcp.clusters["fresh"] = "fresh", "fresh"
		w.kcp.rights["early"] = map[string]bool{}
	})
	path := func(ws string) string { return "/dataplane/clusters/" + ws + "/sandboxrunners/demo/log" }
	ask := func(ws string) int {
		before := w.kcp.gets.Load() + w.kcp.reviews.Load()
		res, _ := w.do("GET", path(ws), "early", nil)
		return int(w.kcp.gets.Load()+w.kcp.reviews.Load()-before)/2*1000 + res.StatusCode
	}
	const kept, asked = http.StatusForbidden, 1000 + http.StatusForbidden
	if first, second := ask("root:fresh"), ask("root:fresh"); first != asked || second != kept {
		t.Errorf("without a binding: %d, then %d", first, second)
	}
	w.kcp.bind("fresh", fakeBinding{path: "root:fresh", phase: "Bound", accepted: true})
	eventually(t, "the binding is known", func() bool { return w.server.bound.IsNew("root:fresh", time.Minute) })
	for _, ws := range []string{"root:fresh", "fresh"} {
		if first, second := ask(ws), ask(ws); first != asked || second != asked {
			t.Errorf("with a new binding, %s: %d, then %d", ws, first, second)
		}
	}
	if old := ask("root:acme:dev"); old != asked {
		t.Errorf("an old binding: %d", old)
	}
	if old := ask("root:acme:dev"); old != kept {
		t.Errorf("a no in a workspace that was bound before is not kept: %d", old)
	}
	w.kcp.grant("early", "*")
	w.kcp.addInstance("fresh", "default", "demo", "uid-fresh")
	if res, body := w.do("GET", path("root:fresh"), "early", nil); res.StatusCode == http.StatusForbidden {
		t.Errorf("the right that came is not seen: %s", body)
	}
}

func TestIdentityWorkspaces(t *testing.T) {
	for workspace, ok := range map[string]bool{"root": true, "root:identity": true, "a1b2": true, "": true, "root:": false, "../root": false, "*": false} {
		o := Options{Insecure: true, IdentityWorkspace: workspace}
		o.SetDefaults()
		if err := o.Validate(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "identity-workspace") {
			t.Errorf("%q: %v", workspace, err)
		}
	}
}
