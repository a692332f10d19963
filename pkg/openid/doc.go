// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package openid logs a person in at an OpenID provider from a command line: in the browser, with an authorization code and
// PKCE (RFC 8252, RFC 7636), or on another device with a code (RFC 8628), as a public client without a secret. It keeps the login
// and refreshes it.
//
// # Responsibility
//
//   - provider.go: what an issuer says about itself, and which of its endpoints may be used
//   - transport.go: the bounds of each exchange with it
//   - browser.go: the login in the browser
//   - device.go: the login on another device, for machines without a browser
//   - tokens.go: the exchange for tokens, their refresh and their revocation
//   - store.go, login.go: logins in files of this machine, one process at a time
//
// # Boundary
//
// An issuer is named by the person and not trusted further than that: its endpoints are https, or http on this machine; a
// code or a refresh token is sent once and follows no redirect; answers have a bound in bytes and in time; only a URL that
// was checked reaches a browser. Texts of an issuer in errors have to be escaped before they go to a terminal.
package openid
