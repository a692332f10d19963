// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package openid has the tests of pkg/openid with a provider that others wrote: the example server of zitadel/oidc. What a
// provider does wrong is tested beside the code, with pkg/openid/openidtest.
package openid
