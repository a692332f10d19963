// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// podSubresources lists what an endpoint with a podRef may lead to, for messages.
var podSubresources = strings.Join([]string{PodLog, PodExec, PodAttach, PodPortForward, PodProxy}, ", ")

func checkPodEndpoint(e located) []Problem {
	problems := checkMethods(e)
	problems = append(problems, unwanted(e, "a pod", map[string]bool{"upstreamPath": e.UpstreamPath != ""})...)
	switch {
	case e.verb == ProxyVerb && e.PodSubresource != PodProxy:
		// Upgrades of the verb proxy need a right to read only: behind it stands an app that has
		// its own say. A shell must not hide there.
		return append(problems, Problem{e.field + ".podSubresource", "must be " + PodProxy + " for the verb " + ProxyVerb})
	case PodStream(&e.Endpoint):
		return append(problems, checkPodStream(e)...)
	case e.PodSubresource == PodLog:
		return append(problems, checkPodLog(e)...)
	case e.PodSubresource == PodProxy:
		return append(problems, checkPodProxy(e)...)
	}
	return append(problems, Problem{e.field + ".podSubresource", "must be one of " + podSubresources})
}

func checkPodLog(e located) []Problem {
	var problems []Problem
	for _, method := range e.Methods {
		if method != http.MethodGet && method != http.MethodHead {
			problems = append(problems, Problem{e.field + ".methods", "a pod's log can only be read: GET"})
			break
		}
	}
	return append(problems, unwanted(e, "podSubresource: log", map[string]bool{"port": e.Port != "", "upgrade": e.Upgrade})...)
}

// checkPodStream checks exec, attach and portforward. They are WebSockets and nothing else: a POST
// would be another right for the same shell.
func checkPodStream(e located) []Problem {
	var problems []Problem
	if !e.Upgrade {
		problems = append(problems, Problem{e.field + ".upgrade", "must be true: a pod's " + e.PodSubresource + " is a WebSocket"})
	}
	if len(e.Methods) > 0 && !slices.Equal(e.Methods, []string{http.MethodGet}) {
		problems = append(problems, Problem{e.field + ".methods", "must be GET alone: a WebSocket begins with it"})
	}
	return append(problems, unwanted(e, "podSubresource: "+e.PodSubresource, map[string]bool{
		"port": e.Port != "", "stream": e.Stream, "container": e.Container != "" && e.PodSubresource == PodPortForward,
	})...)
}

func checkPodProxy(e located) []Problem {
	var problems []Problem
	if e.verb != ProxyVerb {
		problems = append(problems, Problem{e.field + ".podSubresource", "may be " + PodProxy + " for the verb " + ProxyVerb + " only"})
	}
	if e.Upgrade && !slices.Contains(e.Methods, http.MethodGet) {
		problems = append(problems, Problem{e.field + ".upgrade", "needs the method GET: an upgrade is a GET"})
	}
	if e.Port != "" && !IsPort(e.Port) {
		problems = append(problems, Problem{e.field + ".port", "must be the name of a container's port or a number from 1 to 65535"})
	}
	return append(problems, unwanted(e, "podSubresource: proxy", map[string]bool{"container": e.Container != ""})...)
}

// checkAllPorts refuses a verb that leads to every port of a pod beside one that leads to a port
// of a Service without a token: the Service may well be the pod's, and who may call the first
// reached the second without the right to it.
func checkAllPorts(dp *sandbarv1alpha1.DataPlane, all []located) []Problem {
	if dp.TokenSecretRef != "" {
		return nil // which neither proxy nor portforward sends
	}
	var problems []Problem
	for _, outer := range all {
		if !toPod(&outer.Endpoint) || outer.PodSubresource != PodProxy && outer.PodSubresource != PodPortForward {
			continue
		}
		for _, inner := range all {
			if inner.ServiceRef != "" && inner.verb != outer.verb {
				problems = append(problems, Problem{
					outer.field + ".podSubresource",
					"leads to every port of the pod, and with it perhaps to that of verb " + inner.verb +
						", which asks for no token: set tokenSecretRef, or remove one of the verbs",
				})
			}
		}
	}
	return problems
}

// IsPort tells whether s may name a port: the name of a container's port, as Kubernetes has them,
// or a number from 1 to 65535 without leading zeros.
func IsPort(s string) bool {
	n, err := strconv.Atoi(s)
	if err != nil {
		return len(validation.IsValidPortName(s)) == 0
	}
	return strconv.Itoa(n) == s && len(validation.IsValidPortNum(n)) == 0
}
