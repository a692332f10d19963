// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// Standing is whether a data plane is trusted as a workspace's binding names it.
type Standing string

// The standings of a data plane.
const (
	NotTrusted     Standing = "not trusted"
	TrustedOtherCA Standing = "trusted with another CA"
	IsTrusted      Standing = "trusted"
)

// StandingOf compares an offer with the data planes that are trusted.
func StandingOf(planes []client.DataPlane, o client.Offer) Standing {
	plane := find(planes, o.URL)
	switch {
	case plane == nil:
		return NotTrusted
	case o.CAHash != "" && o.Verify(plane.CABundle) != nil:
		return TrustedOtherCA
	default:
		return IsTrusted
	}
}

// find is the entry for an address; nil if there is none.
func find(planes []client.DataPlane, address string) *client.DataPlane {
	for i := range planes {
		if planes[i].Is(address) {
			return &planes[i]
		}
	}
	return nil
}

// Trusted is the [Note] that a data plane may get the person's credential from now on.
type Trusted struct {
	// URL is the data plane's.
	URL string
	// Binding names the APIBinding and CAHash the SHA-256 by which its CA bundle was verified; both are empty
	// if the binding has no hash.
	Binding, CAHash string
	// File is the trust store.
	File string
}

func (Trusted) isNote() {}

// ProbeError means that what was to be trusted does not answer as a data plane. Nothing was stored.
type ProbeError struct{ Err error }

// Error implements error.
func (e *ProbeError) Error() string { return e.Err.Error() + " (nothing is trusted)" }

// Unwrap returns Err.
func (e *ProbeError) Unwrap() error { return e.Err }

// NotTrustedError means that the data plane of instances that were to be created may not get the person's
// credential. Nothing was created.
type NotTrustedError struct {
	// Offer names the data plane, and Standing is why it may not.
	Offer    client.Offer
	Standing Standing
	// Err is set instead when nothing is trusted, and the workspace's bindings cannot be read.
	Err error
}

// Error implements error.
func (e *NotTrustedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("no data plane may get your token yet, and nothing has been created (%v)", e.Err)
	}
	return fmt.Sprintf("nothing has been created, because the data plane %s that the binding %s names is %s", termsafe.Line(e.Offer.URL), e.Offer.Binding, e.Standing)
}

// Unwrap returns Err.
func (e *NotTrustedError) Unwrap() error { return e.Err }

// Offers are the data planes that the bindings of the workspace name, with the errors of [client.Offers].
func (w Workspace) Offers(ctx context.Context) ([]client.Offer, error) {
	return client.Offers(ctx, w.Config)
}

// Trusted are the data planes that may get the credential of the workspace's server.
func (w Workspace) Trusted() ([]client.DataPlane, error) {
	planes, err := w.Trust.Load()
	return slices.DeleteFunc(planes, func(p client.DataPlane) bool { return !p.IsFor(w.Config) }), err
}

// Take trusts a data plane that a binding names with the credential of the workspace's server, and with the CA
// bundle that has the binding's hash. It fails as [client.Offer.DataPlane] does, and ends with the note [Trusted].
// The person was asked before.
func (w Workspace) Take(ctx context.Context, o client.Offer) error {
	plane, err := o.DataPlane(ctx)
	if err != nil {
		return err
	}
	plane.Servers = []string{client.ServerOf(w.Config)}
	if err := w.Trust.Add(plane); err != nil {
		return err
	}
	note := Trusted{URL: plane.URL, File: w.Trust.Path}
	if o.CAHash != "" {
		note.Binding, note.CAHash = o.Binding, o.CAHash
	}
	w.Notes.send(note)
	return nil
}

// TrustURL trusts a data plane that the person names with the credential of the workspace's server. If the workspace's
// binding has a hash for it, the CA bundle is the one with the hash: a nil bundle is fetched as [Workspace.Take] does. Otherwise the data plane has to answer,
// and it is a [ProbeError] if it does not; unseen leaves that out. A URL or a bundle that can never be right is a
// [UsageError]. It ends with the note [Trusted].
func (w Workspace) TrustURL(ctx context.Context, plane client.DataPlane, unseen bool) error {
	plane.URL = strings.TrimRight(plane.URL, "/") // as bindings write it, and one entry per data plane
	if err := plane.Check(); err != nil {
		return &UsageError{err}
	}
	// Without the right to list bindings there is nothing to compare with.
	offers, _ := w.Offers(ctx)
	for _, o := range offers {
		switch {
		case !plane.Is(o.URL) || o.CAHash == "":
		case plane.CABundle == nil:
			return w.Take(ctx, o)
		default:
			if err := o.Verify(plane.CABundle); err != nil {
				return err
			}
		}
	}
	if !unseen {
		if err := plane.Probe(ctx, w.Config); err != nil {
			return &ProbeError{err}
		}
	}
	plane.Servers = []string{client.ServerOf(w.Config)}
	if err := w.Trust.Add(plane); err != nil {
		return err
	}
	w.Notes.send(Trusted{URL: plane.URL, File: w.Trust.Path})
	return nil
}

// TrustFor makes sure, before anything is created, that the data plane of the resource may get the person's
// credential: a sandbox that its owner cannot use has been created in vain. It asks Confirm, and what is not
// confirmed is a [NotTrustedError]. A person who may not read the bindings passes if they trust any data plane.
func (w Workspace) TrustFor(ctx context.Context, resource schema.GroupResource) error {
	planes, err := w.Trusted()
	if err != nil {
		return err
	}
	offers, err := w.Offers(ctx)
	if err != nil {
		if len(planes) > 0 {
			return nil // the bindings are not everybody's to read; the verbs look again
		}
		return &NotTrustedError{Err: err}
	}
	for _, o := range offers {
		standing := StandingOf(planes, o)
		switch {
		case !o.Serves(resource) || standing == IsTrusted:
		case w.Confirm == nil || !w.Confirm(o):
			return &NotTrustedError{Offer: o, Standing: standing}
		default:
			if err := w.Take(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}
