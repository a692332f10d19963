// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	decide "github.com/sandbar-dev/sandbar/pkg/baseline"
)

// Reasons of the conditions.
const (
	reasonFound        = "Found"
	reasonReady        = "Ready"
	reasonLooking      = "Looking"
	reasonReserved     = "NamespaceReserved"
	reasonMissing      = "NamespaceMissing"
	reasonNotAllowed   = "NotAllowed"
	reasonSelector     = "InvalidSelector"
	reasonKind         = "KindNotServed"
	reasonMatchNothing = "SelectorMatchesNothing"
)

const (
	// maxNamed is how many names a message has before it counts the rest.
	maxNamed = 5
	// maxMessage is how many bytes a message has: that of a selector quotes what is in it.
	maxMessage = 1024
)

// problem is one thing that is wrong, and what to do about it.
type problem struct{ reason, message string }

// problemsOf returns what is wrong with the namespaces of a Baseline, the first cause first.
func problemsOf(b *sandbarv1alpha1.Baseline, views map[string]view, rolloutsServed bool) (problems []problem) {
	in := map[viewState][]string{}
	var taboo []string
	for _, namespace := range b.Spec.Namespaces {
		if decide.Reserved(namespace.Name) {
			taboo = append(taboo, namespace.Name)
			continue
		}
		state := views[namespace.Name].state
		in[state] = append(in[state], namespace.Name)
	}
	add := func(names []string, reason, format string, args ...any) {
		if len(names) > 0 {
			problems = append(problems, problem{reason, fmt.Sprintf(format, append([]any{named(names)}, args...)...)})
		}
	}
	add(taboo, reasonReserved, "%s cannot be part of a Baseline: take it out of spec.namespaces")
	add(in[missing], reasonMissing, "the runtime cluster has no namespace %s: create it, or take it out of spec.namespaces")
	add(in[forbidden], reasonNotAllowed, "the controllers may not read the namespace %s: as an administrator of the runtime cluster, run %s",
		decide.GrantCommand(b.Name))
	if !rolloutsServed && slices.Contains(b.Spec.Workloads.Kinds, sandbarv1alpha1.BaselineRollout) {
		problems = append(problems, problem{
			reasonKind,
			"the runtime cluster does not serve Rollout (argoproj.io/v1alpha1): install Argo Rollouts there, or take it out of spec.workloads.kinds",
		})
	}
	return problems
}

// problemsOfChoice returns what is wrong with what was chosen, if all namespaces could be read.
func problemsOfChoice(c choice) (problems []problem) {
	add := func(message string) { problems = append(problems, problem{reasonMatchNothing, message}) }
	switch {
	case len(c.absentWorkloads) > 0:
		add(fmt.Sprintf("spec.workloads chooses no workload %s: correct its names, selector or kinds", named(c.absentWorkloads)))
	case len(c.workloads) == 0:
		add("spec.workloads chooses no workload in these namespaces: correct its selector or kinds, or deploy one")
	}
	if len(c.absentServices) > 0 {
		add(fmt.Sprintf("spec.services chooses no Service %s: correct its names or selector", named(c.absentServices)))
	}
	return problems
}

// named lists names, and counts those that would make a message long.
func named(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// conclude sets the conditions. Ready sums up: it has one cause today.
func conclude(b *sandbarv1alpha1.Baseline, problems []problem) {
	if len(problems) > 0 {
		var messages []string
		for _, p := range problems {
			messages = append(messages, p.message)
		}
		message := cut(strings.Join(messages, "; "), maxMessage)
		setCondition(b, sandbarv1alpha1.BaselineFound, metav1.ConditionFalse, problems[0].reason, message)
		setCondition(b, sandbarv1alpha1.BaselineReady, metav1.ConditionFalse, problems[0].reason, message)
		return
	}
	setCondition(b, sandbarv1alpha1.BaselineFound, metav1.ConditionTrue, reasonFound, foundMessage(&b.Status))
	setCondition(b, sandbarv1alpha1.BaselineReady, metav1.ConditionTrue, reasonReady, readyMessage(&b.Spec))
}

func foundMessage(s *sandbarv1alpha1.BaselineStatus) string {
	message := fmt.Sprintf("workloads: %d, Services: %d", s.WorkloadsFound, s.ServicesFound)
	if listed := len(s.Workloads); listed < int(s.WorkloadsFound) {
		message += fmt.Sprintf("; the first %d workloads are listed: have several Baselines with a selector each", listed)
	}
	if listed := len(s.Services); listed < int(s.ServicesFound) {
		message += fmt.Sprintf("; the first %d Services are listed", listed)
	}
	return message
}

func readyMessage(spec *sandbarv1alpha1.BaselineSpec) string {
	if len(spec.Workspaces) == 0 {
		return "no workspace sees it: spec.workspaces is empty"
	}
	return "the workspaces of spec.workspaces see it in their catalogue"
}

// concludeUnread says that nothing is known yet of what the spec says now.
func concludeUnread(b *sandbarv1alpha1.Baseline) {
	const message = "the controllers are reading the namespaces on the runtime cluster"
	setCondition(b, sandbarv1alpha1.BaselineFound, metav1.ConditionUnknown, reasonLooking, message)
	setCondition(b, sandbarv1alpha1.BaselineReady, metav1.ConditionUnknown, reasonLooking, message)
}

func setCondition(b *sandbarv1alpha1.Baseline, condition string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: b.Generation,
	})
}
