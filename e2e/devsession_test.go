// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

var devSessions = builtin.Of(builtin.DevSession).GVR()

// editedDir is a directory of the toolchain's image, with thousands of files and links.
const editedDir = "/opt/app-deps"

// editedScript answers with what greeting.txt has, at the moment of the request.
const editedScript = `const at = "` + editedDir + `/greeting.txt", fs = require("fs");
require("http").createServer((q, r) => r.end("session " + (fs.existsSync(at) ? fs.readFileSync(at, "utf8") : "-"))).listen(8080)`

// edited is a group with a component web that is developed.
type edited struct {
	*testing.T

	shop  *shop
	group *instance
}

func newEdited(t *testing.T) *edited {
	t.Helper()
	tn := newTenant(t, "alice")
	e := &edited{T: t, shop: newShop(t, tn.path)}
	for _, gvr := range []schema.GroupVersionResource{groups, devSessions} {
		tn.waitServed(gvr)
		tn.waitRight(gvr)
	}
	e.group = tn.create(groups, "SandboxGroup", "checkout", specOf(t, `{baselineRef: {name: `+e.shop.name+`}, components: [
		{name: web, sourceRef: {apiVersion: apps/v1, kind: Deployment, name: frontend, namespace: storefront},
		 overrides: {replicas: 1, containers: [{name: app, env: [{name: GREETING, value: mine}]}]}}]}`))
	e.group.waitReady()
	return e
}

// session creates a DevSession of the component web.
func (e *edited) session(name string) *instance {
	e.Helper()
	spec := specOf(e.T, `{sandboxRef: {name: checkout}, workload: web, targetPath: `+editedDir+`, storage: {size: 2Gi}}`)
	spec["command"] = []any{"node", "-e", editedScript}
	return e.group.tn.create(devSessions, builtin.DevSession, name, spec)
}

// says waits until a condition of a session has a reason, and returns the status.
func (e *edited) says(session *instance, condition, reason, says string) (status sandbarv1alpha1.DevSessionStatus) {
	e.Helper()
	eventually(e.T, session.name+" says "+reason, func() error {
		obj, err := session.get()
		if err != nil {
			return err
		}
		status = sandbarv1alpha1.DevSessionStatus{}
		fields, _ := obj.Object["status"].(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(status.Conditions, condition); c == nil || c.Reason != reason || !strings.Contains(c.Message, says) {
			return fmt.Errorf("it says %+v", status)
		}
		return nil
	})
	return status
}

// get is one request to the Service of the copy.
func (e *edited) get(ctx context.Context) (string, error) {
	got, err := e.shop.kube.CoreV1().Services(e.group.id.Namespace()).ProxyGet("http", "checkout-web-svc", "http", "/", nil).DoRaw(ctx)
	return string(got), err
}

func (e *edited) answers(want string) {
	e.Helper()
	eventually(e.T, "the workload answers "+want, func() error {
		got, err := e.get(e.Context())
		if err == nil && got != want {
			err = fmt.Errorf("it answers %s", got)
		}
		return err
	})
}

// asked has requests come at a rate of 20 a second, one after the other is due, until the end is called, which returns how many
// failed.
func (e *edited) asked() (end func() (sent, failed int64, first error)) {
	ctx, cancel := context.WithCancel(e.Context())
	var wg sync.WaitGroup
	var sent, failed atomic.Int64
	var first atomic.Pointer[error]
	wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				sent.Add(1)
				if _, err := e.get(ctx); err != nil && ctx.Err() == nil {
					failed.Add(1)
					first.CompareAndSwap(nil, &err)
				}
			}
		}
	})
	return func() (int64, int64, error) {
		cancel()
		wg.Wait()
		if err := first.Load(); err != nil {
			return sent.Load(), failed.Load(), *err
		}
		return sent.Load(), failed.Load(), nil
	}
}

// leaves waits until nothing of a session is in the placement.
func (e *edited) leaves(name string) {
	e.Helper()
	eventually(e.T, "nothing of "+name+" is left", func() error {
		namespace := e.group.id.Namespace()
		_, deployment := e.shop.kube.AppsV1().Deployments(namespace).Get(e.Context(), name+"-dev", metav1.GetOptions{})
		_, claim := e.shop.kube.CoreV1().PersistentVolumeClaims(namespace).Get(e.Context(), name+"-workspace", metav1.GetOptions{})
		if !apierrors.IsNotFound(deployment) || !apierrors.IsNotFound(claim) {
			return errors.Join(errors.New("something is there"), deployment, claim)
		}
		return nil
	})
}

// TestADevSessionTakesTheRequestsOfAWorkload: a session begins with the image's files, has edits served at once, takes the requests of
// the copy and gives them back, and no request fails at either switch; a workload has one session; and a session goes with its group
// (3-T10).
func TestADevSessionTakesTheRequestsOfAWorkload(t *testing.T) {
	calm(t)
	e := newEdited(t)
	e.answers("mine hunter2")
	end := e.asked()
	session := e.session("live")
	status := e.says(session, sandbarv1alpha1.DevSessionReadyCondition, sandbarv1alpha1.DevSessionServing, "web")
	if status.Phase != sandbarv1alpha1.DevSessionReady || status.ServiceName != "live-dev" || len(status.Ports) != 1 {
		t.Errorf("%+v", status)
	}
	e.answers("session -")
	if sent, failed, err := end(); failed > 0 || sent == 0 {
		t.Errorf("of %d requests %d failed while the session began, first with %v", sent, failed, err)
	}
	caller := callAs(t, session.tn.token)

	t.Run("it begins with the files of the image", func(t *testing.T) {
		if got := caller.on(t).want(http.StatusOK, "GET", session.base()+"/files/node_modules/vite/package.json", nil); !strings.Contains(got, `"name": "vite"`) {
			t.Errorf("it has %.300s", got)
		}
	})
	t.Run("an edit is served", func(t *testing.T) {
		caller.on(t).want(http.StatusOK, "POST", session.base()+"/sync", syncBody(t, map[string]string{"greeting.txt": "hello"}))
		e.answers("session hello")
	})
	t.Run("the component's verbs lead to its pod", func(t *testing.T) {
		eventually(t, "the copy's pods are gone, and the session's stands for the component", func() error {
			if status, got := caller.do("GET", e.group.base()+"/components/web/ports/8080/proxy/", nil); status != http.StatusOK || got != "session hello" {
				return fmt.Errorf("it answers %d: %s", status, got)
			}
			return nil
		})
	})
	t.Run("another session is refused", func(t *testing.T) {
		second := e.session("second")
		e.says(second, sandbarv1alpha1.DevSessionResolvedCondition, sandbarv1alpha1.DevSessionAnother, "developed by DevSession live")
		second.delete()
	})
	t.Run("suspended it keeps its workspace", func(t *testing.T) {
		e.group.mustPatch(`{"spec":{"suspended":true}}`)
		e.says(session, sandbarv1alpha1.DevSessionReadyCondition, sandbarv1alpha1.DevSessionSuspended, "")
		e.group.mustPatch(`{"spec":{"suspended":false}}`)
		e.answers("session hello")
	})
	t.Run("the copy gets its requests back", func(t *testing.T) {
		e.says(session, sandbarv1alpha1.DevSessionReadyCondition, sandbarv1alpha1.DevSessionServing, "")
		end := e.asked()
		session.delete()
		e.leaves("live")
		e.answers("mine hunter2")
		if sent, failed, err := end(); failed > 0 || sent == 0 {
			t.Errorf("of %d requests %d failed while the session ended, first with %v", sent, failed, err)
		}
	})
	t.Run("a session goes with its group", func(t *testing.T) {
		last := e.session("last")
		e.says(last, sandbarv1alpha1.DevSessionResolvedCondition, sandbarv1alpha1.DevSessionResolved, "")
		e.group.delete()
		eventually(t, "the session is gone", func() error {
			if _, err := last.get(); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		})
	})
}
