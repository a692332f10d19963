// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// dataVolume is the resource of a graph that makes a volume of its own.
const dataVolume = `    - id: data
      template:
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata:
          name: data
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        spec:
          accessModes: [ReadWriteOnce]
          resources: {requests: {storage: 16Mi}}
`

// boxTemplate runs one pod of which nearly everything can be made wrong by its spec.
const boxTemplate = templateHead + `
      spec:
        command: string | default="exec sleep 100000"
        image: string | default="localhost/sandbar/toolchain-node:dev"
        cpu: string | default="10m"
        secret: string | default=""
        runtimeClass: string | default=""
        privileged: boolean | default=false
        suspended: boolean | default=false
      status:
        boxRef:
          name: ${box.metadata.name}
          namespace: ${box.metadata.namespace}
    resources:
` + dataVolume + `    - id: box
      readyWhen:
      - >-
        ${box.status.?observedGeneration.orValue(0) == box.metadata.generation &&
        box.status.?replicas.orValue(0) == box.spec.replicas &&
        box.status.?readyReplicas.orValue(0) == box.spec.replicas}
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: box
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        spec:
          replicas: "${schema.spec.suspended ? 0 : 1}"
          strategy: {type: Recreate}
          selector: {matchLabels: {app: box}}
          template:
            metadata:
              labels: {app: box, sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
            spec:
              terminationGracePeriodSeconds: 2
              automountServiceAccountToken: false
              runtimeClassName: '${schema.spec.runtimeClass == "" ? dyn(null) : dyn(schema.spec.runtimeClass)}'
              securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
              containers:
              - name: box
                image: ${schema.spec.image}
                imagePullPolicy: IfNotPresent
                command: [/bin/sh, -c, '${schema.spec.command}']
                env:
                - name: SECRET
                  valueFrom: {secretKeyRef: {name: '${schema.spec.secret == "" ? "none" : schema.spec.secret}', key: x, optional: '${schema.spec.secret == ""}'}}
                resources: {requests: {cpu: '${schema.spec.cpu}', memory: 16Mi}, limits: {cpu: "8", memory: 64Mi}}
                securityContext: {allowPrivilegeEscalation: '${schema.spec.privileged}', capabilities: {drop: [ALL]}}
                volumeMounts: [{name: data, mountPath: /data}]
              volumes: [{name: data, persistentVolumeClaim: {claimName: '${data.metadata.name}'}}]
  dataPlane:
    endpoints:
      status: {from: instanceStatus}
`

// boxes applies the Template and returns it with a tenant.
func boxes(t *testing.T) (*note, *tenant) {
	t.Helper()
	n := newNote(t)
	n.text = boxTemplate
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	tn.waitServed(n.gvr)
	return n, tn
}

// waitState waits until an instance is in a phase for the reasons of Composed (unless empty),
// Suspended and Ready, and returns it.
func (i *instance) waitState(phase, composed, suspended, ready string, words ...string) *unstructured.Unstructured {
	i.tn.t.Helper()
	var obj *unstructured.Unstructured
	eventually(i.tn.t, i.name+" is "+phase, func() (err error) {
		if obj, err = i.get(); err != nil {
			return err
		}
		r := recordOf(obj)
		got := []string{r.phase, r.reason("Composed"), r.reason("Suspended"), r.reason("Ready")}
		want := []string{phase, composed, suspended, ready}
		if composed == "" {
			want[1] = got[1]
		}
		said := fmt.Sprint(condition(obj, "Ready")["message"])
		if !slices.Equal(got, want) || r.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("it says %q: %s", got, said)
		}
		for _, word := range words {
			if !strings.Contains(said, word) {
				return fmt.Errorf("it does not say %q: %s", word, said)
			}
		}
		return nil
	})
	return obj
}

// passed waits until the recorder's watch, which may lag behind a read, has seen these phases in this order.
func (i *instance) passed(want ...string) {
	i.tn.t.Helper()
	var got []string
	eventually(i.tn.t, "the phases are "+strings.Join(want, ", "), func() error {
		got = recorded.phases(i.id.UID)
		if missing := subsequence(want, got); missing != "" {
			return fmt.Errorf("there is no %s in its place among %q", missing, got)
		}
		return nil
	})
	i.tn.t.Logf("phases: %q", got)
}

// change changes the instance's spec as its tenant.
func (i *instance) change(spec string) {
	i.tn.t.Helper()
	patch := []byte(`{"spec":` + spec + `}`)
	if _, err := i.tn.dyn.Resource(i.gvr).Namespace("default").Patch(i.tn.t.Context(), i.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		i.tn.t.Fatalf("changing %s: %v", i.name, err)
	}
}

// TestAnInstanceWalksThroughItsStates walks one instance through every transition that its
// tenant, its program and its cluster can cause, with conditions, events and what is kept. The
// recorder checks each status in between, their times too.
func TestAnInstanceWalksThroughItsStates(t *testing.T) {
	changes(t)
	n, tn := boxes(t)
	box := tn.create(n.gvr, n.kind, "walker", map[string]any{})
	box.waitState("Ready", "Composed", "NotSuspended", "SandboxPodReady")

	box.change(`{"suspended": true}`)
	obj := box.waitState("Suspended", "Composed", "ByUser", "SandboxPodDeleted", "spec.suspended")
	suspension := recordOf(obj).Suspension
	if suspension == nil || !slices.Equal(suspension.Kept, []string{"Identity", "Volumes"}) {
		t.Errorf("status.suspension is %+v", suspension)
	}
	box.change(`{"suspended": false}`)
	box.waitState("Ready", "Composed", "NotSuspended", "SandboxPodReady")

	box.change(`{"command": "sleep 30; exit 3"}`)
	box.waitState("Degraded", "CrashLoop", "NotSuspended", "SandboxPodNotReady", "exit code 3", "log")
	box.change(`{"command": "exit 4"}`)
	box.waitState("Failed", "CrashLoop", "NotSuspended", "SandboxPodNotReady", "exit code 4")
	box.change(`{"suspended": true}`)
	box.waitState("Suspended", "Composed", "ByUser", "SandboxPodDeleted")
	box.change(`{"suspended": false, "cpu": "3900m"}`)
	box.waitState("PendingCapacity", "NoNodeHasRoom", "NotSuspended", "SandboxPodInitializing", "Insufficient cpu")
	box.change(`{"command": "exec sleep 100000", "cpu": "10m"}`)
	box.waitState("Ready", "Composed", "NotSuspended", "SandboxPodReady")
	box.delete()
	waitGone(t, box.id)

	// The second time it may be known that no node has room before anybody could say Waking.
	want := []string{
		"Ready", "Suspending", "Suspended", "Waking", "Ready",
		"Degraded", "Failed", "Suspending", "Suspended", "PendingCapacity", "Ready", "Deleting",
	}
	box.passed(want...)
	told := box.events()
	t.Logf("events: %q", told)
	for _, reason := range want {
		if !slices.Contains(told, reason) {
			t.Errorf("no event tells of %s: %q", reason, told)
		}
	}
}

// subsequence returns the first of some that is missing in its place among all.
func subsequence(some, all []string) string {
	for _, one := range some {
		at := slices.Index(all, one)
		if at < 0 {
			return one
		}
		all = all[at+1:]
	}
	return ""
}

// events are the reasons of the events about the instance in its workspace, as its tenant sees
// them.
func (i *instance) events() []string {
	i.tn.t.Helper()
	list, err := i.tn.kube.CoreV1().Events("default").List(i.tn.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(i.id.UID)})
	if err != nil {
		i.tn.t.Fatal(err)
	}
	var reasons []string
	for _, event := range list.Items {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}

// TestEachCauseIsNamed: whatever keeps an instance from running is a condition with the cause
// and the remedy, never a silent Pending.
func TestEachCauseIsNamed(t *testing.T) {
	changes(t)
	n, tn := boxes(t)
	cases := map[string]struct {
		spec                   map[string]any
		phase, composed, ready string
		words                  []string
	}{
		"image":    {map[string]any{"image": "registry.invalid/none:1"}, "Failed", "ImageNotPullable", "SandboxPodNotReady", []string{"registry.invalid/none:1", "correct its name"}},
		"named":    {map[string]any{"image": "Not A Name"}, "Failed", "ImageNotPullable", "SandboxPodNotReady", []string{"InvalidImageName"}},
		"secret":   {map[string]any{"secret": "missing"}, "Failed", "ContainerNotStartable", "SandboxPodNotReady", []string{`"missing" not found`}},
		"memory":   {map[string]any{"command": "exec tail /dev/zero"}, "Failed", "CrashLoop", "SandboxPodNotReady", []string{"memory", "raise the limit"}},
		"quota":    {map[string]any{"cpu": "5"}, "PendingCapacity", "QuotaExceeded", "SandboxPodInitializing", []string{"exceeded quota", "larger quota"}},
		"security": {map[string]any{"privileged": true}, "Failed", "PodRefused", "SandboxPodNotReady", []string{"violates PodSecurity", "security context"}},
		"class":    {map[string]any{"runtimeClass": "nowhere"}, "Failed", "RuntimeClassMissing", "SandboxPodNotReady", []string{"nowhere"}},
	}
	made := map[string]*instance{}
	began := time.Now()
	for name, c := range cases {
		made[name] = tn.create(n.gvr, n.kind, name, c.spec)
	}
	for name, c := range cases {
		obj := made[name].waitState(c.phase, c.composed, "NotSuspended", c.ready, c.words...)
		t.Logf("%s after at most %v: %v", name, time.Since(began).Round(time.Second), condition(obj, "Ready")["message"])
	}
	for name := range cases {
		made[name].delete()
	}
	for name := range cases {
		waitGone(t, made[name].id)
	}
}

// TestAnUnusedInstanceSleeps: it says so, and what is done with it wakes it.
// Its minute is made to have passed; TestTimersAreEnforced waits for one.
func TestAnUnusedInstanceSleeps(t *testing.T) {
	changes(t)
	n, tn := boxes(t)
	box := tn.create(n.gvr, n.kind, "sleeper", map[string]any{"lifecycle": map[string]any{
		"sleepAfterUnused": "1m", "shutdownTime": "2099-01-02T03:04:05Z",
	}})
	box.waitState("Ready", "Composed", "NotSuspended", "SandboxPodReady")
	box.sleep(t)
	obj := box.waitState("Sleeping", "Composed", "Unused", "SandboxPodDeleted", "next request wakes it")
	if s := recordOf(obj).Suspension; s == nil || s.Cause != "Unused" || !slices.Contains(s.Kept, "Volumes") {
		t.Errorf("status.suspension is %+v", s)
	}
	row := box.row()
	t.Logf("kubectl get: %v", row)
	if row["State"] != "Sleeping" || row["Expires"] != "2099-01-02T03:04:05Z" || row["Ready"] != "False" {
		t.Errorf("kubectl get shows %v", row)
	}
	for column, least := range map[string]time.Duration{"Idle": time.Minute, "Age": 0} {
		if d, err := time.ParseDuration(fmt.Sprint(row[column])); err != nil || d < least {
			t.Errorf("%s is %v: %v", column, row[column], err)
		}
	}
	box.change(`{"lifecycle": {"sleepAfterUnused": "1h"}}`)
	box.waitState("Ready", "Composed", "NotSuspended", "SandboxPodReady")
	box.passed("Ready", "Suspending", "Sleeping", "Waking", "Ready")
	box.delete()
	waitGone(t, box.id)
}

// row is what kubectl get -o wide prints of the instance.
func (i *instance) row() map[string]any {
	i.tn.t.Helper()
	data, err := i.tn.kube.Discovery().RESTClient().Get().
		AbsPath("apis", i.gvr.Group, i.gvr.Version, "namespaces", "default", i.gvr.Resource, i.name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(i.tn.t.Context())
	if err != nil {
		i.tn.t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(data, &table); err != nil || len(table.Rows) != 1 {
		i.tn.t.Fatalf("%v: %s", err, data)
	}
	row := map[string]any{}
	for n, column := range table.ColumnDefinitions {
		row[column.Name] = table.Rows[0].Cells[n]
	}
	return row
}

// TestWithoutTheClaimThereAreNoEvents: a workspace that lets the provider write no events has
// none, and its instances live as all others do.
func TestWithoutTheClaimThereAreNoEvents(t *testing.T) {
	changes(t)
	n := newNote(t)
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newWorkspace(t, "bob")
	tn.bindWith(reviewsClaim("Accepted"))
	before := counted(t, `sandbar_instance_events_total{outcome="unclaimed"}`)
	obj := tn.createNote(n, "quiet")
	obj.waitState("Ready", "Composed", "NotSuspended", "ResourcesReady")
	obj.change(`{"suspended": true}`)
	obj.waitState("Suspended", "Composed", "ByUser", "SandboxPodDeleted")
	if told := obj.events(); len(told) > 0 {
		t.Errorf("events: %q", told)
	}
	if after := counted(t, `sandbar_instance_events_total{outcome="unclaimed"}`); after <= before {
		t.Errorf("unclaimed events went from %v to %v", before, after)
	}
}

// counted is the value of a series among the provider's metrics; zero when it is not there.
func counted(t *testing.T, series string) float64 {
	t.Helper()
	text, err := world.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return countedIn(t, text, series)
}

func countedIn(t *testing.T, text, series string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}
