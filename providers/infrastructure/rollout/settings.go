// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Defaults of sandbarv1alpha1.Rollout.
const (
	DefaultMaxUnavailable   = "10%"
	DefaultMaxFailed        = "1%"
	DefaultMinReady         = 10 * time.Second
	DefaultProgressDeadline = 5 * time.Minute
)

// Settings are those of a Template's rollout.
type Settings struct {
	MaxUnavailable, MaxFailed  intstr.IntOrString
	MinReady, ProgressDeadline time.Duration
	// Paused is true if the operator has paused it.
	Paused bool
}

// SettingsOf are those of a Template: its own, then the provider's, then the defaults.
func SettingsOf(template, provider *sandbarv1alpha1.Rollout) Settings {
	s := Settings{
		MaxUnavailable: intstr.FromString(DefaultMaxUnavailable), MaxFailed: intstr.FromString(DefaultMaxFailed),
		MinReady: DefaultMinReady, ProgressDeadline: DefaultProgressDeadline,
	}
	for _, said := range []*sandbarv1alpha1.Rollout{provider, template} {
		if said == nil {
			continue
		}
		override(&s.MaxUnavailable, said.MaxUnavailable)
		override(&s.MaxFailed, said.MaxFailed)
		override(&s.Paused, said.Paused)
		seconds(&s.MinReady, said.MinReadySeconds)
		seconds(&s.ProgressDeadline, said.ProgressDeadlineSeconds)
	}
	return s
}

func override[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func seconds(to *time.Duration, from *int32) {
	if from != nil {
		*to = time.Duration(*from) * time.Second
	}
}

// share is a number or a share of total, rounded up; at least 1. The API server admits nothing
// that is neither; should it ever, the careful answer is 1.
func share(value intstr.IntOrString, total int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, total, true)
	if err != nil {
		return 1
	}
	return max(n, 1)
}
