// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package credential keeps a ServiceAccount's token that lies in a file from expiring: as long
// as a process runs that uses it, the process asks for the next one (TokenRequest) and replaces
// the file. client-go reads the file again every minute. A copy of the file that nobody uses
// expires. A thief of a token can renew it as the process does, until the ServiceAccount is deleted.
//
// In a pod the kubelet does the same for the token that it projects, and nothing here is needed.
package credential
