// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/credential"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const runInitOut = "run sandbar-provider init with --out and the same folder, and start the processes again"

// checkIdentities looks at the ServiceAccounts of the provider's processes and, where the folder is here, at the tokens
// in it.
func (e *examination) checkIdentities(ctx context.Context) []Finding {
	var found []Finding
	for _, id := range install.Identities() {
		reader, namespace := e.runtime, e.names.SystemNamespace()
		if id.KCP {
			reader, namespace = e.kcp, placement.SystemNamespace
		}
		account := &corev1.ServiceAccount{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: id.Account}, account)
		switch {
		case apierrors.IsNotFound(err):
			found = append(found, failure(runInit, "there is no ServiceAccount %s/%s", namespace, id.Account))
		case err != nil:
			found = append(found, failure("", "the ServiceAccount %s cannot be read: %v", id.Account, err))
		case e.IdentityDir != "":
			found = append(found, judgeToken(filepath.Join(e.IdentityDir, id.TokenFile()), string(account.UID), time.Now()))
		}
	}
	if len(found) == 0 {
		return one(passed("the %d ServiceAccounts of the provider are there; name the folder of init --out with --identities to have their tokens looked at", len(install.Identities())))
	}
	return found
}

// judgeToken says whether the token in a file is of the ServiceAccount with a UID, and for how long.
func judgeToken(path, uid string, now time.Time) Finding {
	token, err := credential.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return failure(runInitOut, "there is no file %s", path)
	case err != nil:
		return failure(runInitOut, "%v", err)
	case token.UID != uid:
		return failure(runInitOut, "the token in %s is of a ServiceAccount %s that was deleted and made again", path, token.Name)
	case token.Expires.IsZero():
		return warning(runInitOut, "the token in %s never expires", path)
	case !now.Before(token.Expires):
		return failure(runInitOut, "the token in %s expired at %s", path, token.Expires.UTC().Format(time.RFC3339))
	case token.Expires.Sub(now) < token.Lifetime()/3:
		return warning("the process that uses it renews it after a third of its life: see whether it runs, and its log",
			"the token in %s expires at %s and is not renewed", path, token.Expires.UTC().Format(time.RFC3339))
	}
	return passed("the token in %s lasts until %s", path, token.Expires.UTC().Format(time.RFC3339))
}
