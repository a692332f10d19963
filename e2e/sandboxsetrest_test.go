// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestASetAtRestCostsNothing: of a set whose members are ready nothing is written for a minute, neither in kcp nor on the
// runtime cluster, and no controller looks at a set, a member or an instance.
func TestASetAtRestCostsNothing(t *testing.T) {
	long(t, "it keeps forty sandboxes ready and watches them do nothing for a minute")
	breaks(t)
	const members, rest = 40, time.Minute
	tn := setTenant(t, "bob")
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	tn.mustSet("warm", fmt.Sprintf(`{replicas: %d, templateRef: {name: own}, scaleStrategy: {maxUnavailable: 10}}`, members))
	tn.waitSet("warm", "is full", hasAvailable(members))
	tn.box("beside", claimsOwn).started()
	tn.waitSet("warm", "is full again", hasAgain(members, 1))
	looks := settled(t)

	inKCP := writesOf(t, tn.dyn.Resource(sandboxSets).Namespace("default"), metav1.ListOptions{})
	boxes := writesOf(t, tn.dyn.Resource(sandboxes).Namespace("default"), metav1.ListOptions{})
	namespaces := dynamic.NewForConfigOrDie(world.Stack.Runtime()).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	onTheNode := writesOf(t, namespaces, metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + tn.cluster})
	<-time.After(rest) // what is asserted is that nothing happens
	if n := len(inKCP()) + len(boxes()); n > 0 {
		t.Errorf("in kcp there were %d writes: %v, %v", n, inKCP(), boxes())
	}
	if written := onTheNode(); len(written) > 0 {
		t.Errorf("on the runtime cluster there were %d writes of namespaces, the first %v", len(written), written[0])
	}
	for controller, n := range looksOf(t) {
		if n != looks[controller] {
			t.Errorf("the controller %s looked %v times", controller, n-looks[controller])
		}
	}
}

// settled waits until no controller has looked at anything of tenants for some seconds, and returns how often each had.
func settled(t *testing.T) map[string]float64 {
	t.Helper()
	before := looksOf(t)
	if len(before) < 3 {
		t.Fatalf("the controllers of sets, members and instances are not among %v", before)
	}
	since := time.Now()
	eventually(t, "the controllers have settled", func() error {
		now := looksOf(t)
		for controller, n := range now {
			if n != before[controller] {
				before, since = now, time.Now()
				return fmt.Errorf("%s has looked just now", controller)
			}
		}
		if time.Since(since) < quietAfter {
			return fmt.Errorf("they are quiet since %v", time.Since(since))
		}
		return nil
	})
	return before
}

var lookSeries = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="([^"]*)",result="[^"]*"\} (\S+)$`)

// looksOf is how often each controller of what tenants make has looked at something.
func looksOf(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := world.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	looks := map[string]float64{}
	for _, match := range lookSeries.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		looks[match[1]] += n
	}
	return looks
}
