// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/dataplane/podexec"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/http1"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

// The two numbers that are private to other packages are compared there.
func TestTheTableOfLimitsHasTheNumbersOfControlServers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Control servers", true,
		limitstable.Limit{
			Name: "how long a pod takes to prove that it has the control token", Number: limitstable.Duration(challengeTimeout),
			Says: []string{fmt.Sprintf("within %s", challengeTimeout)},
		},
		limitstable.Limit{
			Name: "an answer to a challenge, with its header", Number: fmt.Sprintf("%s, %d keys", limitstable.Bytes(maxChallengeBytes), controlproof.MaxKeys),
			Says: []string{"do not accept each other's control token"},
		},
		limitstable.Limit{Name: "how long a challenge is good for requests on a connection", Number: limitstable.Duration(maxSession)},
		limitstable.Limit{Name: "how far the time of a proof is off", Number: limitstable.Duration(controlproof.Window)},
		limitstable.Limit{Name: "proofs that a control server remembers", Number: "16,384 of two minutes, and as many before"},
		limitstable.Limit{Name: "how often a request without a body is shown to a control server that refuses it", Number: fmt.Sprintf("%d times", maxControlAttempts)},
		limitstable.Limit{Name: "how long a token is tried after its Secret has lost it", Number: fmt.Sprintf("%s, %d of a Secret", limitstable.Duration(tokenMemory), maxRemembered)},
		limitstable.Limit{Name: "how long a request waits for a control Secret, or a pod, that is not known yet", Number: limitstable.Duration(lagPatience)},
		limitstable.Limit{Name: "pods whose challenge is kept, with `--transport apiserver`", Number: limitstable.Count(maxCredentials)},
		limitstable.Limit{Name: "control Secrets that a rotation writes", Number: "20 per second"},
	)
}

func TestTheTableOfLimitsHasTheNumbersOfTheWaysToPods(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Not in the object", false,
		limitstable.Limit{
			Name: "an `exec` in a pod: arguments, and their bytes together", Number: fmt.Sprintf("%d, %s", maxExecArguments, limitstable.Bytes(maxExecBytes)),
			Says: []string{fmt.Sprintf("more than %d arguments", maxExecArguments), fmt.Sprintf("larger than %d bytes", maxExecBytes)},
		},
		limitstable.Limit{
			Name:   "how long the processes of a command in a pod have to end after its caller has gone, before they are killed; how long those are looked for that have not begun",
			Number: limitstable.Duration(podexec.Grace) + "; " + limitstable.Duration(podexec.StartPatience),
		},
		limitstable.Limit{
			Name:   "how long the data plane is busy with that; how often at once, in all and for one workspace",
			Number: fmt.Sprintf("%s; %d, %d", limitstable.Duration(cleanTimeout), maxCleanings, maxWorkspaceCleanings),
		},
		limitstable.Limit{
			Name:   "what a caller sends before a command has said anything, and is sent again in a container without `env`; containers of which that is known",
			Number: limitstable.Bytes(podexec.MaxHeld) + "; " + limitstable.Count(maxContainers),
		},
		limitstable.Limit{
			Name:   "one attempt to reach a pod; pods of a Service that one request tries",
			Number: fmt.Sprintf("%s; %d", limitstable.Duration(dialTimeout), maxAttempts),
		},
		limitstable.Limit{
			Name: "the header of a pod's answer", Number: fmt.Sprintf("%s, or %d lines", limitstable.Bytes(maxPodHeaderBytes), http1.MaxHeaderLines),
			Says: []string{fmt.Sprintf("has more than %d bytes or %d lines", maxPodHeaderBytes, http1.MaxHeaderLines)},
		},
		limitstable.Limit{Name: "the trailer of a pod's answer", Number: fmt.Sprintf("%d fields, %s", http1.MaxTrailerFields, limitstable.Bytes(http1.MaxTrailerBytes))},
		limitstable.Limit{Name: "what passes of a pod's answer that refuses an upgrade", Number: limitstable.Bytes(maxRefusalBytes)},
		limitstable.Limit{
			Name:   "connections to pods that are kept, of one destination and of all",
			Number: limitstable.Count(maxIdlePerTarget) + ", " + limitstable.Count(maxIdle),
		},
	)
}
