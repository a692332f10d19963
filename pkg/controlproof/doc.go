// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlproof lets the data plane and the control server of a pod prove to each other that
// both hold the placement's control token, without sending it.
//
// The data plane asks the pod for a [Challenge], with a nonce of its own. The challenge names the
// process that serves (a random session and the time since it began) and is sealed with every key
// that the pod has: a pod without the token cannot make one, so that nothing of a request reaches
// it. Each request then carries a proof: an HMAC-SHA-256 over the pod's UID, the session, the time
// by the pod's own clock, a nonce, the method, the query and the path.
//
// What follows from that:
//
//   - Neither side learns anything from the other that it could use elsewhere. A proof is good for one
//     pod, one process, one request, once.
//   - No two clocks have to agree. Times are measured from the moment at which the pod's process
//     began, and the data plane learns them from the challenge.
//   - Which key both have is settled before a request is sent, so that a rotation fails no request.
//
// The body of a request is not part of its proof, and nothing is encrypted: who can change packets
// between the data plane and a pod can change what is synced, as before.
//
// Both sides must count requests as different that differ in the decoded path or in the query as it
// was sent; how a path is encoded may change on the way, and does in the API server's proxy.
//
// The package depends on the standard library alone, since the runner links it.
package controlproof
