// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// serviceAccountTokens makes a service account in the tenant's workspace, with tokens.
func (tn *tenant) serviceAccountTokens(name string, tokens int) []string {
	tn.t.Helper()
	kube := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(tn.path))
	ctx := tn.t.Context()
	if _, err := kube.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		tn.t.Fatalf("making a service account: %v", err)
	}
	all := make([]string, tokens)
	for i := range all {
		got, err := kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			tn.t.Fatalf("making a token: %v", err)
		}
		all[i] = got.Status.Token
	}
	return all
}

// TestNoRefusalTellsWhichWorkspacesExist is promise 2 for strangers: with a token that is made up,
// and with one that is good and has no rights, what exists and what does not answer in the same bytes.
// How long they take is in the test's log; SANDBAR_E2E_REQUESTS is how many it takes that of.
func TestNoRefusalTellsWhichWorkspacesExist(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	account := newWorkspace(t, "bob").serviceAccountTokens("stranger", 1)[0]
	workspaces := map[string]string{
		"a path that exists": tn.path, "a path that does not": "root:e2e-does-not-exist",
		"a cluster that exists": tn.cluster, "a cluster that does not": "1" + tn.cluster[1:len(tn.cluster)-4] + "zzzz",
	}
	requests := 2
	if n, err := strconv.Atoi(os.Getenv("SANDBAR_E2E_REQUESTS")); err == nil {
		requests = n
	}
	for name, c := range map[string]struct {
		token string
		code  int
	}{
		"a made-up token":             {"made-up-e2e-token", http.StatusUnauthorized},
		"a user without rights":       {world.Stack.Token("dave"), http.StatusForbidden},
		"another's service account":   {account, http.StatusForbidden},
		"a token whose end was cut":   {tn.token[:len(tn.token)-1], http.StatusUnauthorized},
		"a service account's, forged": {account[:len(account)-4] + "AAAA", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			caller := callAs(t, c.token)
			caller.do(http.MethodGet, "/livez", nil) // the connection is made
			var first string
			took := map[string][]time.Duration{}
			for i := range requests {
				for which, workspace := range workspaces {
					for _, verb := range []string{"log", "nosuch"} {
						// Another name each time, so that nothing is answered from a cache.
						path := fmt.Sprintf("/dataplane/clusters/%s/sandboxrunners/i%d/%s", workspace, i, verb)
						started := time.Now()
						res := caller.open(t.Context(), http.MethodGet, path, nil)
						body, err := io.ReadAll(res.Body)
						took[which] = append(took[which], time.Since(started))
						if err != nil {
							t.Fatal(err)
						}
						res.Header.Del("Date")
						res.Header.Del("Audit-Id")
						got := fmt.Sprint(res.StatusCode, res.Header, string(body))
						if res.StatusCode != c.code || first != "" && got != first {
							t.Fatalf("%s, %s: %s\nothers: %s", which, verb, got, first)
						}
						first = got
					}
				}
			}
			for which, all := range took {
				slices.Sort(all)
				t.Logf("%-24s p10 %v p50 %v p90 %v p99 %v", which, all[len(all)/10], all[len(all)/2], all[len(all)*9/10], all[len(all)*99/100])
			}
			for _, kind := range []string{"path", "cluster"} {
				t.Logf("a guess by time between two %ss is right in %.1f %% of cases (50 %% is chance)", kind,
					100*better(took["a "+kind+" that exists"], took["a "+kind+" that does not"]))
			}
		})
	}
}

// better is how often the better of two guesses by which of two times is longer is right: the area
// under the curve of a test that knows nothing else.
func better(a, b []time.Duration) float64 {
	wins := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				wins++
			case x == y:
				wins += 0.5
			}
		}
	}
	share := wins / float64(len(a)*len(b))
	return max(share, 1-share)
}

// TestManyTokensOfOneServiceAccountAskKcpNoMoreThanOne counts what kcp is asked: seven tokens of one
// service account without rights, in as many requests as fit, cost what one is allowed to cost.
func TestManyTokensOfOneServiceAccountAskKcpNoMoreThanOne(t *testing.T) {
	long(t, "it counts what the whole provider asks kcp, over thousands of requests")
	breaks(t)
	tokens := newWorkspace(t, "bob").serviceAccountTokens("flood", 7)
	tn := newTenant(t, "alice")
	questions := func() (n float64) {
		for _, call := range []string{"get", "review", "identity"} {
			for _, outcome := range []string{"allowed", "denied", "no_access", "not_found", "unauthorized", "unavailable"} {
				n += counted(t, fmt.Sprintf(`sandbar_dataplane_kcp_calls_total{call=%q,outcome=%q}`, call, outcome))
			}
		}
		return n
	}
	const burst, perSecond, each, workers = 1000, 100, 700, 8
	before, started := questions(), time.Now()
	codes := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n, token := range tokens {
		c := callAs(t, token)
		for worker := range workers {
			wg.Go(func() {
				for i := range each / workers {
					path := fmt.Sprintf("/dataplane/clusters/%s/sandboxrunners/i%d-%d-%d/log", tn.path, n, worker, i)
					req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, c.url+path, strings.NewReader(""))
					req.Header.Set("Authorization", "Bearer "+token)
					res, err := c.client.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					mu.Lock()
					codes[res.StatusCode]++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	asked, lasted := questions()-before, time.Since(started)
	t.Logf("%d requests with seven tokens in %v: %v; kcp was asked %.0f times", 7*each/workers*workers, lasted, codes, asked)
	// Two questions to a request that is let through, those under way when the bucket was empty among
	// them, and one to a token. Others' tests ask a little meanwhile.
	if most := 2*(burst+perSecond*lasted.Seconds()+7*workers) + 7 + 200; asked > most {
		t.Errorf("kcp was asked %.0f times, more than %.0f", asked, most)
	}
	// On a machine with other load they may come so slowly that all of them may pass.
	if passes := burst + perSecond*lasted.Seconds(); codes[http.StatusTooManyRequests] == 0 && 7*each > passes {
		t.Errorf("nothing was refused: %v, and %.0f may pass", codes, passes)
	}
}
