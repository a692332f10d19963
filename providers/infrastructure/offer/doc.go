// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package offer puts kinds before tenants. Every controller with a kind of its own uses it, for a
// Template's kind or a built-in one.
//
// In: a schema, and the rules that say what tenants may do with the kind at most. Out: an
// APIResourceSchema that is named for its content, an entry in the APIExport, and rules in the
// ClusterRole PolicyRole, which kcp applies as the export's maximal permission policy.
//
// Several controllers write the one export and the one role. Each write changes the entries of its kind
// alone and names the version that it read, so that none undoes another's.
//
// Write the rules before the entry, and remove them after it: kcp denies every verb that the policy does
// not name.
package offer
