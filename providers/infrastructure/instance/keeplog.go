// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/keptlog"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// What became of a log, for the metric.
const (
	logKept    = "kept"
	logNotKept = "failed"
)

// errUnread means that the log of no container could be read: what an earlier suspension kept stays.
var errUnread = errors.New("no container's log could be read")

// keptLines is how many lines of a container's log are read to keep its end.
const keptLines = 2000

// keepLogs writes the end of an instance's log to a Secret before a suspension takes its pods, and the
// log with them. A suspension never fails for it: what could not be kept is told in the controllers' log.
func (r *reconciler) keepLogs(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured, d lifecycle.Decision) {
	if d.Suspended == "" || current == nil || lifecycle.Suspended(current) {
		return
	}
	reading, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	kept, err := r.endsOfLogs(reading, s, current)
	if err == nil {
		writing, cancel := context.WithTimeout(ctx, logTimeout)
		defer cancel()
		err = r.writeLog(writing, s, kept)
	}
	if err != nil {
		logsKeptTotal.WithLabelValues(logNotKept).Inc()
		log.FromContext(ctx).Error(err, "the log of an instance that is suspended could not be kept")
		return
	}
	logsKeptTotal.WithLabelValues(logKept).Inc()
}

// endsOfLogs reads the end of the log of each container.
func (r *reconciler) endsOfLogs(ctx context.Context, s *scope.Scope, current *unstructured.Unstructured) (*keptlog.Log, error) {
	var pods corev1.PodList // the cache does not hold their specs
	if err := r.runtime.live.List(ctx, &pods, client.InNamespace(s.Placement().Namespace())); err != nil {
		return nil, err
	}
	kept := &keptlog.Log{At: r.now().UTC(), Containers: containersOf(pods.Items, podRefs(s, current))}
	group, ctx := errgroup.WithContext(ctx)
	for i := range kept.Containers {
		c := &kept.Containers[i]
		group.Go(func() error {
			text, err := r.runtime.logs(ctx, s.Placement().Namespace(), outcome.Speaker{Pod: c.Pod, Container: c.Name}, logEnd{lines: keptLines, bytes: keptlog.ContainerBytes, timestamps: true})
			switch {
			case err == nil:
				c.Text = text
			case !apierrors.IsBadRequest(err): // that one has not started, and has none
				log.FromContext(ctx).Info("could not keep the log of a container", "container", c.Name, "cause", err.Error())
				c.Unread = true
			}
			return nil // a node that does not answer stops nothing
		})
	}
	_ = group.Wait()
	wasRead := func(c keptlog.Container) bool { return !c.Unread }
	if len(kept.Containers) > 0 && !slices.ContainsFunc(kept.Containers, wasRead) {
		return nil, errUnread
	}
	return kept, nil
}

// containersOf lists the containers whose logs are kept, in an order of their own: of components that are several, one pod of
// each comes before the second of any.
func containersOf(pods []corev1.Pod, refs map[string][]string) []keptlog.Container {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	turns, seen := map[string]int{}, map[string]int{}
	for i := range pods {
		if component := pods[i].Labels[placement.LabelComponent]; component != "" {
			turns[pods[i].Name] = seen[component]
			seen[component]++
		}
	}
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(turns[a.Name], turns[b.Name]) })
	var containers []keptlog.Container
	for i := range pods {
		for n := range pods[i].Spec.Containers {
			of := &pods[i].Spec.Containers[n]
			if len(containers) == keptlog.MaxContainers {
				return containers
			}
			c := keptlog.Container{Pod: pods[i].Name, Name: of.Name, Labels: pods[i].Labels, Refs: refs[pods[i].Name], Runner: runsRunner(of)}
			for _, port := range of.Ports {
				c.Ports = append(c.Ports, port.Name)
			}
			containers = append(containers, c)
		}
	}
	return containers
}

// runsRunner reports whether a container's program is the runner: it knows its pod by the variable that
// proofs of the control token need.
func runsRunner(c *corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == controlproof.PodUIDVariable })
}

// podRefs tells by the name of a pod which fields of the kro instance's status name it: of one that has
// no pods they may name none.
func podRefs(s *scope.Scope, current *unstructured.Unstructured) map[string][]string {
	paths := map[string]bool{}
	endpoints := []map[string]sandbarv1alpha1.Endpoint{s.DataPlane().Endpoints}
	for _, component := range s.DataPlane().Components {
		endpoints = append(endpoints, component.Endpoints)
	}
	for _, of := range endpoints {
		for _, e := range of {
			paths[e.PodRef] = e.PodRef != ""
		}
	}
	refs := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if ref, err := contract.Resolve(current.Object, path); paths[path] && err == nil {
			refs[ref.Name] = append(refs[ref.Name], path)
		}
	}
	return refs
}

func (r *reconciler) writeLog(ctx context.Context, s *scope.Scope, kept *keptlog.Log) error {
	data, err := kept.Encode()
	if err != nil {
		return err
	}
	_, err = r.runtime.write(ctx, &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: s.ObjectMeta(placement.LogSecret),
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	})
	return err
}
