// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// ContextName is the name of the kubeconfig's context that commands use; empty if there is none.
func (s *Target) ContextName() string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return s.Overrides.CurrentContext
	}
	return cmp.Or(s.Overrides.CurrentContext, raw.CurrentContext)
}

// StartError is an error of a workspace that a command met on the way to it, with what helps.
func (s *Target) StartError(ctx context.Context, err error) error {
	var redirect *client.RedirectError
	if ctx.Err() != nil {
		return err
	}
	if errors.As(err, &redirect) {
		return redirect
	}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		if text := s.refused(err); text != "" {
			return &DiagnosedError{text, err}
		}
	}
	return err
}

// refused is for a workspace that refuses the kubeconfig's credential, or a right to something in it.
func (s *Target) refused(err error) string {
	if text := refusedByPolicy(err); text != "" {
		return text
	}
	k, failed := s.Kind()
	if failed != nil {
		return ""
	}
	who := "the kubeconfig's credential"
	if user := s.credential(); user != "" {
		who = "the kubeconfig's user " + termsafe.Line(user)
	}
	if apierrors.IsUnauthorized(err) {
		return fmt.Sprintf("%s does not know %s: the credential may have expired; log in again with sandbar login, or choose another --context", PlaceOf(k.Config.Host), who)
	}
	return fmt.Sprintf("%s denies %s what the command needs there (%s): check --context, or ask the owner of the workspace for the right",
		PlaceOf(k.Config.Host), who, termsafe.Line(err.Error()))
}
