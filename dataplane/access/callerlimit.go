// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// CallerEntries bounds the callers of which something is remembered. One that falls out starts
// with a full burst again.
const CallerEntries = 16384

// CallerLimiter bounds what one caller may cost kcp. The limits of instances and workspaces count
// only requests that kcp has allowed; without a bound here, a flood of made-up tokens, or of names
// that a stranger makes up, would become a flood on kcp, and would hold all the slots for questions
// that other tenants need.
//
// What counts is who a caller is and not what it shows: kcp gives a service account as many tokens
// as it asks for. So it is kcp that says whose a token is (authenticate.go), once for each token,
// and before that nothing is known of a caller but the address. A stranger behind the same hub or
// NAT as a tenant spends the address's share, which is for tokens that kcp has not accepted, and
// not the tenant's.
type CallerLimiter struct {
	limits func() *limit.Limits
	// denials are the buckets of those who were told no, and of addresses whose tokens were none.
	denials *lru.Cache[CallerKey, *rate.Limiter]
	// questions are the buckets of all questions about a caller, whatever the answer.
	questions *lru.Cache[CallerKey, *rate.Limiter]

	mu     sync.Mutex
	asking map[CallerKey]int
}

// CallerKey is a hash of who is counted: a verified caller, or an address.
type CallerKey [sha256.Size]byte

// CountedCaller is who a question is counted for.
type CountedCaller struct {
	Key CallerKey
	// verified is set when kcp, or a front proxy or a seal that stands for it, has said who the
	// caller is. Otherwise key is the address's.
	verified bool
}

// NewCallerLimiter returns one that asks limits for those in force at each call.
func NewCallerLimiter(limits func() *limit.Limits) (*CallerLimiter, error) {
	denials, err := lru.New[CallerKey, *rate.Limiter](CallerEntries)
	if err != nil {
		return nil, fmt.Errorf("making the limits of callers: %w", err)
	}
	questions, err := lru.New[CallerKey, *rate.Limiter](CallerEntries)
	if err != nil {
		return nil, fmt.Errorf("making the limits of callers: %w", err)
	}
	return &CallerLimiter{limits: limits, denials: denials, questions: questions, asking: map[CallerKey]int{}}, nil
}

// kcp says in these where a service account comes from.
const (
	serviceAccountPrefix    = "system:serviceaccount:"
	kcpServiceAccountPrefix = "system:kcp:serviceaccount:"
	extraClusterName        = "authentication.kcp.io/cluster-name"
)

// CountedUser is who a user's questions are counted for: the user, by name and UID. Groups and extra
// keys do not count, or a user would have another share for each of its scopes; all service
// accounts of a workspace are one, because its administrator makes as many as they like. origin is
// where the user's name means something: empty for all of kcp, a workspace for users that only this
// workspace authenticates, who may be named like anybody else.
func CountedUser(origin string, user authenticationv1.UserInfo) CountedCaller {
	what, name, uid := "user", user.Username, user.UID
	isServiceAccount := strings.HasPrefix(name, serviceAccountPrefix) || strings.HasPrefix(name, kcpServiceAccountPrefix)
	if cluster := user.Extra[extraClusterName]; isServiceAccount && len(cluster) == 1 {
		what, name, uid = "service accounts", cluster[0], ""
	}
	return CountedCaller{Key: hashOf(what, origin, name, uid), verified: true}
}

// CountedAddress is who questions about a caller are counted for of whom nothing else is known.
func CountedAddress(remote string) CountedCaller {
	return CountedCaller{Key: hashOf("address", AddressOf(remote))}
}

func hashOf(parts ...string) CallerKey {
	var b []byte
	for _, part := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// enter lets a caller put a question to kcp, or refuses it. leave must be called with what kcp
// said.
func (l *CallerLimiter) enter(who CountedCaller) (leave func(*refusal.Error), refused *refusal.Error) {
	limits := l.limits()
	if wait := l.overDenials(who, limits); wait > 0 {
		if !who.verified {
			return nil, refusal.TooMany(refusal.CauseUnverified, fmt.Sprintf("more than %d tokens per second (%d at once) that the workspace's API does not know came from your address", limits.UnverifiedRate, limits.UnverifiedBurst), wait)
		}
		return nil, refusal.TooMany(refusal.CauseDeniedRate, fmt.Sprintf("more than %d requests per second (%d at once) from you were not allowed", limits.DeniedRate, limits.DeniedBurst), wait)
	}
	if wait := l.takeQuestion(who, limits); wait > 0 {
		return nil, refusal.TooMany(refusal.CauseQuestionRate, fmt.Sprintf("the workspace's API has to be asked about more than %d requests per second (%d at once) from you: use fewer tokens, or fewer instances at once", limits.QuestionRate, limits.QuestionBurst), wait)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking[who.Key] >= limits.CallerQuestions {
		return nil, refusal.TooMany(refusal.CauseQuestions, fmt.Sprintf("%d requests from you or your address are being authorized, which is the limit: wait for some", limits.CallerQuestions), time.Second)
	}
	l.asking[who.Key]++
	return func(answer *refusal.Error) { l.leave(who, answer) }, nil
}

func (l *CallerLimiter) leave(who CountedCaller, answer *refusal.Error) {
	l.mu.Lock()
	if l.asking[who.Key]--; l.asking[who.Key] == 0 {
		delete(l.asking, who.Key)
	}
	l.mu.Unlock()
	if answer == nil || answer.Code >= http.StatusInternalServerError {
		return // allowed, or kcp said nothing
	}
	perSecond, burst := denialsOf(who, l.limits())
	// Taken after the answer and not before the question: those who are allowed pay nothing.
	// The bucket can go below zero, by no more than the questions under way.
	BucketOf(l.denials, who.Key, perSecond, burst).Reserve()
}

// learned counts the question by which kcp said whose a token is for its owner, and reports whether
// the owner may put more.
func (l *CallerLimiter) learned(who CountedCaller) bool {
	limits := l.limits()
	bucket := BucketOf(l.questions, who.Key, limits.QuestionRate, limits.QuestionBurst)
	bucket.Reserve()
	return bucket.Tokens() >= 0 && l.overDenials(who, limits) == 0
}

// overDenials is how long a caller must wait that was told no too often; zero for not at all.
func (l *CallerLimiter) overDenials(who CountedCaller, limits *limit.Limits) time.Duration {
	bucket, ok := l.denials.Get(who.Key)
	if !ok {
		return 0
	}
	perSecond, burst := denialsOf(who, limits)
	limit.KeepUp(bucket, perSecond, burst)
	if left := bucket.Tokens(); left < 1 {
		return time.Duration((1 - left) / float64(perSecond) * float64(time.Second))
	}
	return 0
}

// takeQuestion counts a question of a verified caller, or returns how long it must wait.
func (l *CallerLimiter) takeQuestion(who CountedCaller, limits *limit.Limits) time.Duration {
	if !who.verified {
		return 0
	}
	bucket := BucketOf(l.questions, who.Key, limits.QuestionRate, limits.QuestionBurst)
	if bucket.Allow() {
		return 0
	}
	return time.Duration((1 - bucket.Tokens()) / float64(limits.QuestionRate) * float64(time.Second))
}

// denialsOf is how much may be denied: more of an address than of a caller, because many callers
// may come from one.
func denialsOf(who CountedCaller, limits *limit.Limits) (perSecond, burst int) {
	if who.verified {
		return limits.DeniedRate, limits.DeniedBurst
	}
	return limits.UnverifiedRate, limits.UnverifiedBurst
}

// BucketOf returns the bucket of a key, made if there is none, with the rate and burst as they are now.
func BucketOf(buckets *lru.Cache[CallerKey, *rate.Limiter], key CallerKey, perSecond, burst int) *rate.Limiter {
	bucket, ok := buckets.Get(key)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(perSecond), burst)
		if other, found, _ := buckets.PeekOrAdd(key, bucket); found {
			bucket = other
		}
	}
	limit.KeepUp(bucket, perSecond, burst)
	return bucket
}

// AddressOf is the address that a connection comes from; for IPv6 its /64 network, because one
// host has all of it.
func AddressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		network, err := ip.Prefix(64)
		if err == nil {
			return network.String()
		}
	}
	return ip.String()
}
