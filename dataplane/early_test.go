// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"io"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// A caller can know from an object's status that it is Ready before the data plane has heard of the adoption.
func TestARequestWaitsForThePlacementOfAYoungObject(t *testing.T) {
	w := newBornWorld(t)
	w.bearAdopter(metav1.Now())
	answer := w.ask(adopters + "proxy")
	eventually(t, "the request waits", func() bool { return w.server.handler.placer.Changes.Waiting() == 1 })
	w.adopt(bornID, placement.Owner{Cluster: "cluster1", UID: "uid-neighbour"}, "neighbour")
	select {
	case got := <-answer:
		t.Fatalf("another object's adoption gave %s", got)
	default:
	}
	w.adopt(bornID, adopter, "adopter")
	if got := <-answer; got != "200 born" {
		t.Errorf("got %s", got)
	}
}

func TestARequestDoesNotWaitForAnObjectThatIsNotYoungOrGoes(t *testing.T) {
	for name, c := range map[string]struct {
		created metav1.Time
		deleted *metav1.Time
		waits   bool
	}{
		"a young one":          {created: metav1.Now(), waits: true},
		"an old one":           {created: metav1.NewTime(time.Now().Add(-time.Minute))},
		"one that was deleted": {created: metav1.Now(), deleted: new(metav1.Now())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBornWorld(t)
			w.bearAdopter(c.created)
			w.kcp.set(func() { w.kcp.instances["cluster1/default/sandboxrunners/adopter"].DeletionTimestamp = c.deleted })
			answer, waited := w.ask(adopters+"proxy"), false
			for got := ""; got == ""; {
				select {
				case got = <-answer:
					if got[:3] != "404" {
						t.Errorf("got %s", got)
					}
				default:
					waited = waited || w.server.handler.placer.Changes.Waiting() > 0
				}
			}
			if waited != c.waits {
				t.Errorf("waited: %t", waited)
			}
		})
	}
}

// bearAdopter creates the object that has no placement yet.
func (w *world) bearAdopter(created metav1.Time) {
	w.kcp.set(func() { w.kcp.instances["cluster1/default/sandboxrunners/adopter"].CreationTimestamp = created })
}

// ask begins a request and returns what will be answered.
func (w *world) ask(path string) <-chan string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	answer := make(chan string, 1)
	go func() {
		res, err := w.client.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- res.Status[:4] + string(body)
	}()
	return answer
}
