// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// MaxBody bounds the body of a request, in bytes.
	MaxBody = 64 << 10
	// DefaultWait is how long a request without wait waits.
	DefaultWait = 30 * time.Second
	// MaxWait is the longest that a request may wait.
	MaxWait = 5 * time.Minute
	// MaxPairs bounds the labels of a request, and its annotations.
	MaxPairs = 64
	// KeyHeader is the header that holds an idempotency key.
	KeyHeader = "Idempotency-Key"
)

// fields are what a body may have, for people.
const fields = "name, generateName, labels, annotations, lifecycle, prewarm, resize, env, envFrom and wait"

// Request is what a caller asks for.
type Request struct {
	// Name is that of the Sandbox. Without one it is made of GenerateName, or of the template's name.
	Name         string `json:"name,omitempty"`
	GenerateName string `json:"generateName,omitempty"`
	// Labels and Annotations are those of the Sandbox; none of sandbar.dev, but for the annotation that is the key.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Lifecycle, Prewarm and Resize are those fields of the Sandbox's spec, which kcp checks.
	Lifecycle map[string]any `json:"lifecycle,omitempty"`
	Prewarm   string         `json:"prewarm,omitempty"`
	Resize    string         `json:"resize,omitempty"`
	// Env and EnvFrom are those fields as well.
	Env     []sandbarv1alpha1.SandboxEnv     `json:"env,omitempty"`
	EnvFrom []sandbarv1alpha1.SandboxEnvFrom `json:"envFrom,omitempty"`
	// Wait is for how long to wait for the Sandbox to be Ready, such as "30s"; "0s" is not at all.
	Wait *string `json:"wait,omitempty"`

	// Patience is what Wait says.
	Patience time.Duration `json:"-"`
	// Key is the idempotency key; empty for none.
	Key string `json:"-"`
}

// Parse reads a request: 400 for a body that is not JSON, and 422 for what a request must not say.
func Parse(body []byte, header http.Header) (*Request, *refusal.Error) {
	r := &Request{Patience: DefaultWait}
	if len(bytes.TrimSpace(body)) > 0 {
		if refused := r.decode(body); refused != nil {
			return nil, refused
		}
	}
	for _, check := range []func(http.Header) *refusal.Error{r.takeKey, r.checkNames, r.checkPairs, r.takeWait} {
		if refused := check(header); refused != nil {
			return nil, refused
		}
	}
	return r, nil
}

func (r *Request) decode(body []byte) *refusal.Error {
	if !json.Valid(body) {
		return refusal.Malformed(`the body must be empty or one JSON object, such as {"generateName": "job-", "wait": "30s"}`)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(r)
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind) && kind.Field != "":
		return refusal.Invalid(fmt.Sprintf("%s: must not be of the type %s; see docs/fleet.md", kind.Field, kind.Value))
	case errors.As(err, &kind):
		return refusal.Invalid("the body must be one JSON object with the fields " + fields)
	}
	return refusal.Invalid(fmt.Sprintf("%s; the fields are %s, and the SandboxTemplate says what else a Sandbox has", strings.TrimPrefix(err.Error(), "json: "), fields))
}

// takeKey takes the key from the header or the annotation.
func (r *Request) takeKey(header http.Header) *refusal.Error {
	values := header.Values(KeyHeader)
	written, has := r.Annotations[placement.AnnotationIdempotencyKey]
	if has {
		values = append(slices.Clone(values), written)
		r.Annotations = maps.Clone(r.Annotations)
		delete(r.Annotations, placement.AnnotationIdempotencyKey)
	}
	if values = slices.Compact(values); len(values) > 1 {
		return refusal.Invalid(fmt.Sprintf("a request has one idempotency key: send it as the header %s or as the annotation %s", KeyHeader, placement.AnnotationIdempotencyKey))
	}
	if len(values) == 0 {
		return nil
	}
	if err := idempotency.Check(values[0]); err != nil {
		return refusal.Invalid(err.Error())
	}
	r.Key = values[0]
	return nil
}

func (r *Request) checkNames(http.Header) *refusal.Error {
	if r.Name != "" && r.GenerateName != "" {
		return refusal.Invalid("name, generateName: a request has one of them, or neither")
	}
	return nil
}

func (r *Request) checkPairs(http.Header) *refusal.Error {
	for field, pairs := range map[string]map[string]string{"labels": r.Labels, "annotations": r.Annotations} {
		if len(pairs) > MaxPairs {
			return refusal.Invalid(fmt.Sprintf("%s: a request has at most %d", field, MaxPairs))
		}
		for key := range pairs {
			if domain, _, ok := strings.Cut(key, "/"); ok && (domain == "sandbar.dev" || strings.HasSuffix(domain, ".sandbar.dev")) {
				return refusal.Invalid(fmt.Sprintf("%s[%q]: %s of sandbar.dev are not a tenant's to set", field, key, field))
			}
		}
	}
	return nil
}

func (r *Request) takeWait(http.Header) *refusal.Error {
	if r.Wait == nil {
		return nil
	}
	wait, err := time.ParseDuration(*r.Wait)
	if err != nil || wait < 0 || wait > MaxWait {
		return refusal.Invalid(fmt.Sprintf(`wait: must be a duration from 0s to %s, such as "30s"; a Sandbox that takes longer is waited for with sandbar wait`, MaxWait))
	}
	r.Patience = wait
	return nil
}

// digest is a hash of what is asked for, but for how long to wait.
func (r *Request) digest(template string) string {
	asked := *r
	asked.Wait = nil
	data, err := json.Marshal(struct { // maps are in order
		Template string
		Request
	}{template, asked})
	if err != nil {
		panic(fmt.Sprintf("a request that was decoded from JSON cannot be encoded: %v", err))
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
