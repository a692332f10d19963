// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package template makes Templates into APIs. For each Template in the provider workspace it
// checks the contract, gives the graph to kro on the runtime cluster, publishes the CRD that kro
// makes as an APIResourceSchema, offers it in the APIExport and lets tenants use it.
//
// What it keeps:
//   - Nothing is applied of a Template that does not hold: its contract is checked first, and
//     against the schema that tenants have now. A refusal leaves what is served untouched.
//   - Tenants never get write access to the subresource status of a kind, whatever the contract
//     says: the data plane trusts nothing else to be unforgeable.
//   - A Template that has instances is not removed, and takes no new ones once it is to go.
//
// A condition speaks of the generation in its observedGeneration. When a changed Template is
// refused, Ready stays True with the reason PreviousGeneration and the generation that is
// served: a tenant can create an instance, but not of what was asked for last. kubectl wait
// compares the generations and does not take it for an answer.
//
// The package makes kinds. Instances of them are the business of package instance.
package template
