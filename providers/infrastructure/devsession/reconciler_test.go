// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"errors"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
)

func TestASessionTakesTheRequestsOfItsWorkload(t *testing.T) {
	w := newWorld(t)
	w.set(`{metadata: {finalizers: null, ownerReferences: null}}`)
	w.look()
	if got := w.session.GetFinalizers(); !slices.Equal(got, []string{finalizer}) || len(w.stored) > 0 {
		t.Fatalf("before anything is made it has the finalizers %v, and the records are %v", got, w.stored)
	}
	w.look()
	if owners := w.session.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "g" || owners[0].Kind != "SandboxGroup" || owners[0].Controller != nil || len(w.stored) > 0 {
		t.Fatalf("before anything is made it has the owners %+v, and the records are %v", owners, w.stored)
	}
	w.look()
	record := w.stored["web"]
	if record.UID != "s" || record.Stage != devsession.Beside || record.Name != "try" || record.Spec.TargetPath != "/app" || !record.Since.Equal(w.now) {
		t.Fatalf("it notes %+v", record)
	}
	if c := w.condition(sandbarv1alpha1.DevSessionReadyCondition); c.Reason != sandbarv1alpha1.DevSessionStarting || w.status().Phase != sandbarv1alpha1.DevSessionPending {
		t.Errorf("while it starts: %+v, %s", c, w.status().Phase)
	}
	w.settle()
	if stage := w.stored["web"].Stage; stage != devsession.Alone {
		t.Fatalf("it settles at %s", stage)
	}
	status := w.status()
	if status.Phase != sandbarv1alpha1.DevSessionReady || status.DeploymentName != "try-dev" || status.PVCName != "try-workspace" || status.ServiceName != "try-dev" ||
		status.ContainerName != "app" || len(status.Ports) != 1 || status.Ports[0].Port != 80 || status.ObservedGeneration != 2 {
		t.Errorf("%+v", status)
	}
	if dp := status.DataPlane; dp == nil || dp.URL != "https://dp.example.com/dataplane/clusters/c1/namespaces/storefront/devsessions/try" || !slices.Contains(dp.Verbs, "sync") || slices.Contains(dp.Verbs, "renew") {
		t.Errorf("the data plane is %+v", status.DataPlane)
	}
	if c := w.condition(sandbarv1alpha1.DevSessionReadyCondition); c.Status != metav1.ConditionTrue || c.Reason != sandbarv1alpha1.DevSessionServing {
		t.Errorf("%+v", c)
	}
	if last := w.events[len(w.events)-1]; last != "Normal Serving" {
		t.Errorf("its events are %q", w.events)
	}
	if counted(t, "Ready") != 1 {
		t.Error("it is not counted as ready")
	}
	writes := w.writes
	if again := w.look(); again != 0 || w.writes != writes {
		t.Errorf("a session that serves writes %d times, and is looked at again after %s", w.writes-writes, again)
	}
}

func counted(t *testing.T, phase string) float64 {
	t.Helper()
	var m dto.Metric
	must(t, sessionsGauge.WithLabelValues(phase).Write(&m))
	return m.GetGauge().GetValue()
}

func TestAWriterWhoWasFasterIsNotOverwritten(t *testing.T) {
	w := newWorld(t)
	w.stale = true
	if again := w.look(); again != changedAgain || len(w.stored) > 0 {
		t.Errorf("it is looked at again after %s, and the records are %v", again, w.stored)
	}
}

func TestASessionThatIsRefusedSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(w *world)
		reason, says string
		phase        sandbarv1alpha1.DevSessionPhase
	}{
		"no groups are offered": {func(w *world) { w.unplaced = instance.ErrNoKind }, sandbarv1alpha1.DevSessionProviderUnavailable, "offers no SandboxGroups", sandbarv1alpha1.DevSessionPending},
		"another Sandbox": {func(w *world) {
			w.set(`{metadata: {ownerReferences: null}, spec: {sandboxRef: {name: other}}}`)
		}, sandbarv1alpha1.DevSessionSandboxNotFound, "neither a Sandbox with workloads nor a SandboxGroup other", sandbarv1alpha1.DevSessionPending},
		"a Sandbox without copies":     {func(w *world) { w.unplaced = instance.ErrNotPlaced }, sandbarv1alpha1.DevSessionNotReady, "checkout has no copies yet", sandbarv1alpha1.DevSessionPending},
		"another workload":             {func(w *world) { w.set(`{spec: {workload: db}}`) }, sandbarv1alpha1.DevSessionWorkloadNotFound, "has no workload db; it has web, api", sandbarv1alpha1.DevSessionFailed},
		"a workload without a copy":    {func(w *world) { w.set(`{spec: {workload: api}}`) }, sandbarv1alpha1.DevSessionNotReady, "api has no copy yet", sandbarv1alpha1.DevSessionPending},
		"a Baseline that is withdrawn": {func(w *world) { w.work.Baseline = nil }, sandbarv1alpha1.DevSessionNotAllowed, "is not for this workspace any more", sandbarv1alpha1.DevSessionFailed},
		"another container":            {func(w *world) { w.set(`{spec: {containerName: db}}`) }, sandbarv1alpha1.DevSessionContainerNotFound, "it has app", sandbarv1alpha1.DevSessionFailed},
		"no image of the runner":       {func(w *world) { w.work.RunnerImage = "" }, sandbarv1alpha1.DevSessionProviderUnavailable, "spec.images.runner", sandbarv1alpha1.DevSessionPending},
		"an image of others":           {func(w *world) { w.set(`{spec: {image: "docker.io/evil/shop:1"}}`) }, sandbarv1alpha1.DevSessionNotAllowed, "spec.image: docker.io/evil/shop:1 is not admitted by Baseline shop", sandbarv1alpha1.DevSessionFailed},
		"no image at all":              {func(w *world) { w.set(`{spec: {image: "x y"}}`) }, sandbarv1alpha1.DevSessionInvalidSpec, "spec.image", sandbarv1alpha1.DevSessionFailed},
		"a quota that is used up": {func(w *world) {
			w.quota = []corev1.ResourceQuota{{Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("10Gi")}, Used: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("9729Mi")},
			}}}
		}, sandbarv1alpha1.DevSessionQuotaExceeded, "requests.storage 1Gi more, with 9729Mi of 10Gi used", sandbarv1alpha1.DevSessionPending},
		"another session": {func(w *world) {
			w.stored["web"] = devsession.Record{Name: "first", UID: "other", Stage: devsession.Alone}
		}, sandbarv1alpha1.DevSessionAnother, "is developed by DevSession first", sandbarv1alpha1.DevSessionPending},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			before := len(w.stored)
			w.look()
			if got := w.condition(sandbarv1alpha1.DevSessionResolvedCondition); got.Status != metav1.ConditionFalse || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
				t.Errorf("%+v, want %s: %s", got, c.reason, c.says)
			}
			if got := w.condition(sandbarv1alpha1.DevSessionReadyCondition); got.Reason != sandbarv1alpha1.DevSessionNotResolved || w.status().Phase != c.phase {
				t.Errorf("%+v, %s; want %s", got, w.status().Phase, c.phase)
			}
			if len(w.stored) != before || w.stored["web"].UID == "s" {
				t.Errorf("it notes %v", w.stored)
			}
			writes := w.writes
			if w.look(); w.writes != writes {
				t.Error("it is not quiet")
			}
		})
	}
}

// The attack: an image that the Baseline does not admit, written once the session runs.
func TestASessionWhoseImageIsRefusedGoesOnAsItWas(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.set(`{spec: {image: "docker.io/evil/shop:1"}}`)
	w.settle()
	if record := w.stored["web"]; record.Spec.Image != "" || record.Stage != devsession.Alone {
		t.Errorf("it notes %+v", record)
	}
	if c := w.condition(sandbarv1alpha1.DevSessionResolvedCondition); c.Reason != sandbarv1alpha1.DevSessionNotAllowed || w.status().Phase != sandbarv1alpha1.DevSessionReady {
		t.Errorf("%+v, %s", c, w.status().Phase)
	}
	w.set(`{spec: {image: "ghcr.io/acme/shop:2"}}`)
	w.settle()
	if record := w.stored["web"]; record.Spec.Image != "ghcr.io/acme/shop:2" || record.Stage != devsession.Alone {
		t.Errorf("it notes %+v", record)
	}
}

func TestASessionThatEndsGivesTheCopyItsRequestsBack(t *testing.T) {
	w := newWorld(t)
	w.settle()
	var stages []devsession.Stage
	now := metav1.NewTime(w.now)
	w.session.SetDeletionTimestamp(&now)
	waiting := export.Key{Cluster: "c1", NamespacedName: types.NamespacedName{Namespace: "storefront", Name: "waits"}}
	w.r.known.set(waiting, group)
	for range 40 {
		again := w.look()
		if record, ok := w.stored["web"]; ok && !slices.Contains(stages, record.Stage) {
			stages = append(stages, record.Stage)
			if w.session == nil {
				t.Fatalf("it is let go at %s", record.Stage)
			}
			if got := w.status(); got.Phase != sandbarv1alpha1.DevSessionDeleting || got.PVCName != "try-workspace" {
				t.Errorf("at %s it says %+v", record.Stage, got)
			}
		}
		if w.session == nil {
			break
		}
		if w.stored["web"].Stage == devsession.Gone && w.work.Made["s"] {
			if w.look(); w.session == nil {
				t.Fatal("it is let go while its objects are there")
			}
		}
		w.converge()
		w.now = w.now.Add(again)
	}
	if w.session != nil || len(w.stored) > 0 {
		t.Fatalf("after %v it is there, with %v", stages, w.stored)
	}
	if want := []devsession.Stage{devsession.Returning, devsession.Leaving, devsession.Left, devsession.Gone}; !slices.Equal(stages, want) {
		t.Errorf("it went %v, want %v", stages, want)
	}
	if !slices.Equal(w.woken, []export.Key{waiting}) || counted(t, "Deleting") != 0 {
		t.Errorf("those that wait for the workload are not told: %v", w.woken)
	}
}

func TestASessionEndsWithoutAPlaceToLeave(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		stays  bool
	}{
		"whose group is gone": {change: func(w *world) { w.set(`{spec: {sandboxRef: {name: other}}}`) }},
		"whose group goes": {change: func(w *world) {
			now := metav1.Now()
			w.work.Group = &metav1.ObjectMeta{UID: "g", DeletionTimestamp: &now}
		}},
		"that was never made": {change: func(w *world) { w.unplaced = instance.ErrNotPlaced }},
		"whose workload another one has": {change: func(w *world) {
			w.stored["web"] = devsession.Record{Name: "first", UID: "other", Stage: devsession.Alone}
		}},
		"while nothing is known":           {change: func(w *world) { w.unplaced = instance.ErrNoKind }, stays: true},
		"while what is noted is not there": {change: func(w *world) { w.unplaced = instance.ErrNotPlaced; w.set(`{status: {deploymentName: try-dev}}`) }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			now := metav1.Now()
			w.session.SetDeletionTimestamp(&now)
			if again := w.look(); (w.session != nil) != c.stays || c.stays && again != lookAgain {
				t.Errorf("it is there: %t, again after %s", w.session != nil, again)
			}
			if w.stored["web"].Name == "first" && w.stored["web"].Stage != devsession.Alone {
				t.Error("another session was changed")
			}
		})
	}
}

// Somebody has deleted the ConfigMap of the placement: the volume must go by a note, and not by the lack of one.
func TestASessionWhoseRecordIsLostIsRemovedByAnother(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.stored = map[string]devsession.Record{}
	now := metav1.NewTime(w.now)
	w.session.SetDeletionTimestamp(&now)
	w.look()
	if record := w.stored["web"]; record.Stage != devsession.Gone || record.UID != "s" || w.session == nil {
		t.Fatalf("it notes %+v", record)
	}
	w.settle()
	if w.session != nil || len(w.stored) > 0 {
		t.Errorf("it is there: %v", w.stored)
	}
}

func TestASessionGoesWithItsGroup(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"that is gone": func(w *world) {
			w.set(`{metadata: {ownerReferences: [{apiVersion: sandbar.dev/v1alpha1, kind: SandboxGroup, name: other, uid: g}]}, spec: {sandboxRef: {name: other}}}`)
		},
		"that is another by now": func(w *world) { w.work.Group = &metav1.ObjectMeta{Name: "checkout", UID: "g2"} },
	} {
		w := newWorld(t)
		change(w)
		if w.look(); w.session.GetDeletionTimestamp() == nil || len(w.stored) > 0 {
			t.Errorf("one %s: it stays, and notes %v", name, w.stored)
		}
	}
	for name, err := range map[string]error{"no copies": instance.ErrNotPlaced, "no kind": instance.ErrNoKind} {
		w := newWorld(t)
		w.unplaced = err
		if w.look(); w.session.GetDeletionTimestamp() != nil {
			t.Errorf("%s: it is deleted without proof", name)
		}
	}
	w := newWorld(t)
	w.unplaced = apierrors.NewNotFound(corev1.Resource("namespaces"), placed)
	if _, err := w.r.Reconcile(t.Context(), key); err == nil || w.session.GetDeletionTimestamp() != nil {
		t.Errorf("for another object that is gone it is deleted: %v", err)
	}
	w.unplaced = errors.New("kcp does not answer")
	if _, err := w.r.Reconcile(t.Context(), key); err == nil || w.session.GetDeletionTimestamp() != nil {
		t.Errorf("after an error it is deleted: %v", err)
	}
}

// A provider that starts follows groups a moment later, and each of its starts would have told all tenants that they have no session.
func TestASessionOfWhichNothingIsKnownYetKeepsItsStatus(t *testing.T) {
	for name, unknown := range map[string]error{"of no kind": instance.ErrNoKind, "without what was noted": instance.ErrNotPlaced} {
		w := newWorld(t)
		w.settle()
		w.unplaced = unknown
		writes := w.writes
		if again := w.look(); again != lookAgain || w.writes != writes || w.status().Phase != sandbarv1alpha1.DevSessionReady {
			t.Errorf("%s: it is written %d times, and looked at again after %s", name, w.writes-writes, again)
		}
	}
}

// Somebody has taken the finalizer off, and the session is gone.
func TestWhatASessionHasLeftIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.session = nil
	w.settle()
	if _, there := w.stored["web"]; there || len(w.leads) != 1 || w.leads[0] != "web-1" {
		t.Errorf("the Service leads to %v, and the record is %v", w.leads, w.stored)
	}
	if _, known := w.r.known.group(key); known {
		t.Error("it is remembered")
	}
}

func TestWhileTheSandboxIsSuspendedTheSessionWaits(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.work.Rests, w.running = true, nil
	w.look()
	if c := w.condition(sandbarv1alpha1.DevSessionReadyCondition); c.Reason != sandbarv1alpha1.DevSessionSuspended || w.stored["web"].Stage != devsession.Alone {
		t.Errorf("%+v at %s", c, w.stored["web"].Stage)
	}
	w.work.Rests = false
	w.settle()
	if w.status().Phase != sandbarv1alpha1.DevSessionReady {
		t.Errorf("after it has woken: %+v", w.status())
	}
}

func TestWhatKeepsTheFilesFromBeingCopiedIsTold(t *testing.T) {
	const tooSmall = `{"reason":"VolumeTooSmall","message":"the files below /app are 1.2 GiB, and the volume has 1.0 GiB: choose a larger storage.size"}`
	for name, c := range map[string]struct {
		message, reason, says string
	}{
		"a volume that is too small": {tooSmall, sandbarv1alpha1.DevSessionVolumeTooSmall, "1.2 GiB, and the volume has 1.0 GiB"},
		"another reason":             {`{"reason":"SourceMissing","message":"/app is not there"}`, sandbarv1alpha1.DevSessionCopyFailed, "workspace: /app is not there"},
		"one that claims more":       {`{"reason":"Serving","message":"x"}`, sandbarv1alpha1.DevSessionCopyFailed, "workspace: x"},
		"no words":                   {`Killed`, sandbarv1alpha1.DevSessionCopyFailed, "could not be copied"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.look()
			pod := podOf("try-1", placement.LabelSessionUID, "s", false)
			pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: devsession.CopyName, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: c.message},
			}}}
			w.running = append(w.running, pod)
			w.look()
			if got := w.condition(sandbarv1alpha1.DevSessionReadyCondition); got.Reason != c.reason || !strings.Contains(got.Message, c.says) || w.status().Phase != sandbarv1alpha1.DevSessionFailed {
				t.Errorf("%+v, %s", got, w.status().Phase)
			}
			if w.stored["web"].Stage != devsession.Beside {
				t.Errorf("the Service is given to it: %s", w.stored["web"].Stage)
			}
			w.settle()
			if w.status().Phase != sandbarv1alpha1.DevSessionReady {
				t.Errorf("with another pod it does not go on: %+v", w.status())
			}
		})
	}
}

func TestATryThatWasStoppedIsNotAFailure(t *testing.T) {
	if failure := failureIn(`{"reason":"Stopped","message":"it was told to end"}`); failure != nil {
		t.Errorf("%+v", failure)
	}
}

// An image of the workload's own that is not that of the copy now was admitted when it was frozen.
func TestTheImageOfTheSnapshotIsAdmitted(t *testing.T) {
	w := newWorld(t)
	w.work.Copies["web"].Deployment.Spec.Template.Spec.Containers[0].Image = "ghcr.io/acme/shop:pr-1"
	for image, ok := range map[string]bool{"ghcr.io/acme/shop:1": true, "ghcr.io/acme/shop@sha256:" + strings.Repeat("a", 64): true, "ghcr.io/acme/other:1": false} {
		spec := &sandbarv1alpha1.DevSessionSpec{Workload: "web", Image: image}
		if err := admitImage(spec, w.work.Copies["web"], w.work); (err == nil) != ok {
			t.Errorf("%s: %v", image, err)
		}
	}
	w.work.Baseline.Spec.Images.Allow = []string{"ghcr.io/acme/*"}
	if err := admitImage(&sandbarv1alpha1.DevSessionSpec{Workload: "web", Image: "ghcr.io/acme/other:1"}, w.work.Copies["web"], w.work); err != nil {
		t.Errorf("one that the Baseline lists: %v", err)
	}
}
