// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client"
)

// tryTimeout bounds how long a workspace may take to say whom a credential belongs to.
const tryTimeout = 30 * time.Second

// Refusal is why a login was not written.
type Refusal string

// The reasons of a workspace.
const (
	// Unknown is a credential that kcp does not know, or no longer.
	Unknown Refusal = "unknown"
	// Anonymous is a credential that kcp takes for none.
	Anonymous Refusal = "anonymous"
	// NoAccess is a user who may not enter the workspace.
	NoAccess Refusal = "no access"
	// NotVerified is a server whose certificate the CA does not verify.
	NotVerified Refusal = "not verified"
	// Unreachable is a server that does not answer, or not as kcp does.
	Unreachable Refusal = "unreachable"
)

// RefusedError means that the workspace refuses the credential, or cannot be reached with it. Nothing was written.
type RefusedError struct {
	Server  string
	Refusal Refusal
	Err     error
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Err == nil {
		return e.Server + " takes the credential for none"
	}
	return fmt.Sprintf("trying the credential at %s: %v", e.Server, e.Err)
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Try asks the workspace whose credential a context of cfg has, with all that the context says about the way there. The error
// is a *[RefusedError], or says which file cannot be read.
func Try(ctx context.Context, cfg *clientcmdapi.Config, contextName string) (*client.Identity, error) {
	return try(ctx, cfg, contextName, tryTimeout)
}

func try(ctx context.Context, cfg *clientcmdapi.Config, contextName string, timeout time.Duration) (*client.Identity, error) {
	way, err := clientcmd.NewNonInteractiveClientConfig(*cfg, contextName, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the credential: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	me, err := client.WhoAmI(limited, way)
	var certificate *tls.CertificateVerificationError
	var redirect *client.RedirectError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && me.Username == client.Anonymous:
		return nil, &RefusedError{Server: way.Host, Refusal: Anonymous}
	case err == nil:
		return me, nil
	case apierrors.IsUnauthorized(err):
		return nil, &RefusedError{Server: way.Host, Refusal: Unknown, Err: err}
	case apierrors.IsForbidden(err):
		return nil, &RefusedError{Server: way.Host, Refusal: NoAccess, Err: err}
	case errors.As(err, &certificate):
		return nil, &RefusedError{Server: way.Host, Refusal: NotVerified, Err: certificate.Err}
	case errors.As(err, &redirect):
		return nil, &RefusedError{Server: way.Host, Refusal: Unreachable, Err: redirect}
	case limited.Err() != nil:
		return nil, &RefusedError{Server: way.Host, Refusal: Unreachable, Err: fmt.Errorf("it does not answer within %s", timeout)}
	default:
		return nil, &RefusedError{Server: way.Host, Refusal: Unreachable, Err: err}
	}
}
