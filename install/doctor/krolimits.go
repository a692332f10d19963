// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kroLeast is what kro's flags should say at least. With its defaults (one worker, ten events a second) sandboxes that
// are made at the same time wait for each other (docs/operating.md).
var kroLeast = []struct {
	flag, value string
	fallback    int // kro's own default, of a flag that is not given
	least       int
}{
	{"--dynamic-controller-concurrent-reconciles", "config.dynamicControllerConcurrentReconciles", 1, 4},
	{"--dynamic-controller-rate-limiter-rate-limit", "config.dynamicControllerRateLimiterRateLimit", 10, 100},
	{"--client-qps", "config.clientQps", 100, 100},
}

// kroLimits looks at the flags of the Deployment that runs as kro's ServiceAccount. It finds nothing of a kro that runs
// otherwise.
func (e *examination) kroLimits(ctx context.Context) ([]Finding, error) {
	namespace, account, ok := strings.Cut(e.KroServiceAccount, "/")
	if !ok {
		return nil, nil
	}
	var deployments appsv1.DeploymentList
	if err := e.runtime.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var found []Finding
	for i := range deployments.Items {
		if pod := &deployments.Items[i].Spec.Template.Spec; pod.ServiceAccountName == account {
			found = append(found, tooLow(pod)...)
		}
	}
	return found, nil
}

// tooLow returns a finding for each flag of a pod of kro that is below what it should be.
func tooLow(pod *corev1.PodSpec) []Finding {
	var found []Finding
	for _, c := range pod.Containers {
		for _, f := range kroLeast {
			if has := flagOf(&c, f.flag, f.fallback); has < f.least {
				found = append(found, warning(fmt.Sprintf("set %s to %d or more in its Helm chart", f.value, f.least),
					"kro runs with %s=%d: sandboxes that are made at the same time wait for each other", f.flag, has))
			}
		}
	}
	return found
}

// flagOf is the value of a container's flag, as --flag=VALUE or --flag VALUE, where VALUE may be $(VARIABLE).
func flagOf(c *corev1.Container, flag string, fallback int) int {
	args := append(append([]string{}, c.Command...), c.Args...)
	for i, arg := range args {
		name, text, joined := strings.Cut(arg, "=")
		if name != flag {
			continue
		}
		if !joined && i+1 < len(args) {
			text = args[i+1]
		}
		if value, err := strconv.Atoi(expand(text, c.Env)); err == nil {
			return value
		}
	}
	return fallback
}

// variable is how the fields command and args refer to the environment.
var variable = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

func expand(text string, env []corev1.EnvVar) string {
	return variable.ReplaceAllStringFunc(text, func(reference string) string {
		for _, v := range env {
			if "$("+v.Name+")" == reference {
				return v.Value
			}
		}
		return reference
	})
}
