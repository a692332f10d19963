// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"
)

// What Resolve finds out, as exit codes of the program.
const (
	// Resolved means that the name resolves under the policy.
	Resolved = 43
	// Unresolved means that it does not.
	Unresolved = 44
	// Unconfined means that the address which the policy forbids can be reached: the policy is not in
	// force, so that the name says nothing.
	Unconfined = 45
)

// Name is what is looked up: each cluster has it, in the domain of its Services, and answering for it takes
// no server outside of the cluster.
const Name = "kubernetes.default.svc"

const (
	// lookupTimeout bounds one attempt. A policy drops packets silently, and a resolver would ask each server
	// twice for each domain that it searches.
	lookupTimeout = 5 * time.Second
	resolvConf    = "/etc/resolv.conf"
)

// Resolver looks names up. The zero value does as the pod's other programs do.
type Resolver struct {
	// dial is that of a Dialer, and lookup looks up a name; variables for tests.
	dial   func(ctx context.Context, address string) bool
	lookup func(ctx context.Context, name string) error
	// servers are those that lookup asks; a variable for tests.
	servers func() []string
}

// Resolve finds out whether a name resolves, while the address blocked, unless it is None, cannot be
// reached: a policy reaches a new pod some time after its start, and before that anything resolves. The code is
// one of the exit codes. The finding says in a few words, which are the same each time, which servers were asked
// and how they failed; it is empty unless the code is Unresolved.
func (r Resolver) Resolve(ctx context.Context, blocked, name string) (code int, finding string) {
	r = r.complete()
	confined := func(ctx context.Context) bool { return !r.dial(ctx, blocked) }
	if blocked != None && !until(ctx, confined, failures) {
		return Unconfined, ""
	}
	var last error
	resolves := func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		err := r.lookup(ctx, name)
		if err != nil {
			last = err
		}
		return err == nil
	}
	if !until(ctx, resolves, 1) {
		return Unresolved, strings.Join(r.servers(), ", ") + ": " + describe(last)
	}
	// The policy may have gone away meanwhile.
	if blocked != None && !until(ctx, confined, 1) {
		return Unconfined, ""
	}
	return Resolved, ""
}

func (r Resolver) complete() Resolver {
	if r.dial == nil {
		r.dial = dial
	}
	if r.lookup == nil {
		r.lookup = func(ctx context.Context, name string) error {
			_, err := net.DefaultResolver.LookupHost(ctx, name)
			return err
		}
	}
	if r.servers == nil {
		r.servers = func() []string { return readServers(resolvConf) }
	}
	return r
}

// readServers reads the servers of a resolver's configuration; see resolv.conf(5).
func readServers(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return []string{"no server"}
	}
	var servers []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" {
			servers = append(servers, fields[1])
		}
	}
	if len(servers) == 0 {
		return []string{"no server"}
	}
	return servers
}

// describe says how a lookup failed, without the ports and times that are others with each one.
func describe(err error) string {
	failed, ok := errors.AsType[*net.DNSError](err)
	switch {
	case !ok:
		return "no answer"
	case failed.IsTimeout:
		return "no answer"
	case failed.IsNotFound:
		return "there is no such name"
	case strings.Contains(failed.Err, "refused"):
		return "connection refused"
	default:
		return "the server fails"
	}
}
