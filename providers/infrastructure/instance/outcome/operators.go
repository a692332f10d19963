// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// ReasonNotComposing is a reason of Composed: nothing composes instances now.
const ReasonNotComposing = "ProviderNotComposing"

// forOperators rewords what only the operator can mend, and says that the tenant need do nothing.
func forOperators(s *scope.Scope, o Outcome, v verdicts) verdicts {
	v.composed.message, v.ready.message = revision.Plain(v.composed.message), revision.Plain(v.ready.message)
	switch {
	case o.Deleting != "" || v.suspended.OK || (v.composed.OK && v.ready.OK):
		return v
	case o.Turn.updates():
		return whileUpdating(o, v)
	case v.composed.Reason == ReasonComposing && !s.Revisions().NotComposing.IsZero():
		message := fmt.Sprintf("the provider has not composed anything since %s; its operator was told, and nothing is to be done: this goes on by itself",
			s.Revisions().NotComposing.UTC().Format(time.RFC3339))
		v.composed.Reason, v.composed.message = ReasonNotComposing, message
		if !v.ready.OK {
			v.ready.message = message
		}
	}
	return v
}

// ProviderImage rewords the cause of an image that is one of the operator's: its tenant has not written its
// name, and can neither correct it nor open its registry.
func ProviderImage(s *scope.Scope, c *Cause) *Cause {
	if c == nil || c.image == "" || s.Infrastructure() == nil || !slices.Contains(slices.Collect(maps.Values(s.Infrastructure().Images)), c.image) {
		return c
	}
	reworded := *c
	reworded.Reason = ReasonProviderImage
	reworded.Message = strings.TrimSuffix(c.Message, imageRemedy) + "; it is one of the provider's images, and the operator has to see to it. " +
		"It goes on by itself when the image can be pulled"
	return &reworded
}

// whileUpdating is for an instance that was Ready and has taken a change of the operator.
func whileUpdating(o Outcome, v verdicts) verdicts {
	message := "the operator has changed this kind of instance, and this one is being updated; nothing is to be done"
	if why := failure(o, v); why != "" {
		message = "the operator has changed this kind of instance, and this one does not run with the change; " +
			"the operator was told, and nothing is to be done. What was found: " + strings.TrimRight(why, ".")
	}
	for _, verdict := range []*Verdict{&v.composed, &v.ready} {
		if !verdict.OK {
			verdict.message = message
		}
	}
	return v
}

// failure is what keeps an instance from running that does not mend itself; empty if nothing is known.
func failure(o Outcome, v verdicts) string {
	if cause := o.Cause(); cause != nil && cause.failing {
		return cause.Message
	}
	switch v.composed.Reason {
	case ReasonGraphFailed:
		if why, found := refusedPart(GraphMessage(o.Instance)); found {
			return "the runtime cluster refuses a part of it: " + Detail(revision.Plain(why))
		}
		return "it cannot be composed"
	case ReasonSpecRefused, ReasonPodRefused, ReasonRuntimeClass, ReasonTemplateRef:
		return v.composed.message
	}
	return ""
}

// DeletedCause is the cause of resources that are being deleted. Those that hold no data are created again
// in a moment.
func DeletedCause(names, volumes []string) *Cause {
	const said = " is being deleted on the runtime cluster although the instance is not"
	if len(volumes) == 0 {
		return &Cause{Reason: ReasonBeingDeleted, Message: "the resource " + Detail(strings.Join(names, ", ")) + said +
			", and is created again when it is gone; the operator has to see to it if this lasts"}
	}
	return &Cause{Reason: ReasonBeingDeleted, failing: true, Message: "the volume " + Detail(strings.Join(volumes, ", ")) + said +
		": its data ends with the pod that uses it. Back up what you need before you suspend or change the instance; " +
		"the operator has to see to it, and to find out who deleted it"}
}
