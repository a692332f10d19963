// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// tokenMemory is how long a control token is known after its Secret has lost it. The kubelet
	// needs a minute or two to bring a changed Secret to a pod, which has the former one until then.
	tokenMemory = 10 * time.Minute
	// maxRemembered and maxRememberedAll bound what is known of one Secret and of all.
	maxRemembered    = 4
	maxRememberedAll = 1 << 16
)

var (
	errNoToken = errors.New("the placement has no control token")
	// errForeignSecret means that the Secret is not the placement's.
	errForeignSecret = fmt.Errorf("the Secret of the control token: %w", placement.ErrForeign)
)

// secretToken is a control token. It prints as nothing; behind a pointer, because package fmt
// does not call the methods of values in unexported fields.
type secretToken struct{ value *string }

func newSecretToken(value string) secretToken { return secretToken{&value} }

// reveal returns the token; empty if there is none.
func (t secretToken) reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

func (secretToken) String() string       { return "[redacted]" }
func (secretToken) GoString() string     { return "[redacted]" }
func (secretToken) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// tokens knows the control tokens of placements: those that their Secrets have, and those that they
// had a moment ago. A Secret that is deleted or edited is mended by the controllers; until the
// pod has heard of it, what it had is what opens the pod.
type tokens struct {
	secrets cache.SharedIndexInformer
	changes *locate.Changes

	mu sync.Mutex
	// former is by namespace and name of the Secret, the latest last.
	former map[string][]formerToken
	count  int
	// swept is when former was last searched for what is too old.
	swept time.Time
	// refusals are tokens that pods have refused, by the pod's UID; see likeliest.
	refusals map[types.UID][]formerToken
}

type formerToken struct {
	value secretToken
	until time.Time
}

func newTokens(secrets cache.SharedIndexInformer, c *locate.Changes) (*tokens, error) {
	t := &tokens{secrets: secrets, changes: c, former: map[string][]formerToken{}, refusals: map[types.UID][]formerToken{}}
	if _, err := secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: t.changed, DeleteFunc: t.deleted}); err != nil {
		return nil, fmt.Errorf("watching control tokens: %w", err)
	}
	return t, nil
}

// tokensOf are the tokens in a Secret, the current one first.
func tokensOf(secret *corev1.Secret) []string {
	var all []string
	for _, key := range []string{placement.ControlTokenKey, placement.ControlPreviousKey} {
		// What is no header's value is no token: it would be a header of its own.
		if value := string(secret.Data[key]); value != "" && httpguts.ValidHeaderFieldValue(value) && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

// of returns the tokens that may open the pods of a destination, the likeliest first. Those of the
// Secret count as long as it has them, those that it had for a while.
func (t *tokens) of(to locate.Destination) (current, former []string, err error) {
	key := to.Namespace + "/" + to.Secret
	if secret := locate.Lookup[corev1.Secret](t.secrets, key); secret != nil {
		if secret.Labels[placement.LabelInstanceUID] != string(to.UID) {
			return nil, nil, errForeignSecret
		}
		current = tokensOf(secret)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range slices.Backward(t.former[key]) {
		if value := f.value.reveal(); time.Now().Before(f.until) && !slices.Contains(current, value) {
			former = append(former, value)
		}
	}
	if len(current)+len(former) == 0 {
		return nil, nil, errNoToken
	}
	return current, former, nil
}

func (t *tokens) changed(before, after any) {
	was, _ := before.(*corev1.Secret)
	is, _ := after.(*corev1.Secret)
	if was != nil && is != nil {
		t.remember(was, tokensOf(is))
		t.changes.Stir(is) // who looks again finds what is remembered
	}
}

func (t *tokens) deleted(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if was, ok := obj.(*corev1.Secret); ok {
		t.remember(was, nil)
		t.changes.Stir(was)
	}
}

// remember notes the tokens that a Secret had and has no more.
func (t *tokens) remember(was *corev1.Secret, kept []string) {
	had := slices.DeleteFunc(tokensOf(was), func(token string) bool { return slices.Contains(kept, token) })
	if len(had) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.forget(now)
	key := was.Namespace + "/" + was.Name
	list := t.former[key]
	t.count -= len(list)
	for _, token := range slices.Backward(had) {
		list = slices.DeleteFunc(list, func(f formerToken) bool { return f.value.reveal() == token })
		list = append(list, formerToken{newSecretToken(token), now.Add(tokenMemory)})
	}
	list = list[max(0, len(list)-maxRemembered):]
	t.former[key] = list
	t.count += len(list)
}

// forget drops what is too old, once in a while, and all if there is too much. t.mu is held.
func (t *tokens) forget(now time.Time) {
	if t.count >= maxRememberedAll {
		clear(t.former) // what is lost is a moment of patience with each pod
		t.count = 0
	}
	if now.Sub(t.swept) < tokenMemory {
		return
	}
	t.swept = now
	for key, list := range t.former {
		if !list[len(list)-1].until.After(now) {
			t.count -= len(list)
			delete(t.former, key)
		}
	}
}

// likeliest is the first token that a pod has not refused of late, or the first of all. A pod that
// takes no proofs does not say which token it has.
func (t *tokens) likeliest(pod types.UID, known []string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.refusals[pod]
	for _, token := range known {
		if !slices.ContainsFunc(list, func(f formerToken) bool { return f.value.reveal() == token && time.Now().Before(f.until) }) {
			return token
		}
	}
	delete(t.refusals, pod) // all of them: begin anew
	return known[0]
}

// refused notes that a pod has refused a token.
func (t *tokens) refused(pod types.UID, token secretToken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.refusals) >= maxRememberedAll {
		clear(t.refusals)
	}
	list := append(t.refusals[pod], formerToken{token, time.Now().Add(tokenMemory)})
	t.refusals[pod] = list[max(0, len(list)-maxRemembered):]
}
