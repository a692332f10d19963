// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// maxClaimAnswer bounds the answer of a claim, which is a Sandbox without its spec.
	maxClaimAnswer = 1 << 20
	// claimTries is how often a claim is sent at most.
	claimTries = 5
	// keyHeader holds the idempotency key.
	keyHeader = "Idempotency-Key"
)

// ClaimOptions say what a claim asks for beside the SandboxTemplate.
type ClaimOptions struct {
	// Name is that of the Sandbox. Without one, the data plane makes one that begins with GenerateName, or with the
	// template's name.
	Name, GenerateName string
	// Labels and Annotations are those of the Sandbox; none of sandbar.dev.
	Labels, Annotations map[string]string
	// Lifecycle is the Sandbox's; nil for none.
	Lifecycle *sandbarv1alpha1.Lifecycle
	// Prewarm is Prefer, Require or None; empty for Prefer.
	Prewarm string
	// Resize is Require, BestEffort or Keep; empty for Require.
	Resize string
	// Env are variables of the Sandbox's own, and EnvFrom names Secrets of the namespace, shared with the provider, whose keys
	// are more of them. A warm Sandbox needs a SandboxTemplate with the runtime Runner for them.
	Env     []sandbarv1alpha1.SandboxEnv
	EnvFrom []sandbarv1alpha1.SandboxEnvFrom
	// Wait is for how long the data plane waits until the Sandbox is Ready: at most 5 minutes. Nil stands for 30 s.
	Wait *time.Duration
	// Key is the idempotency key: within a day, a claim with the same key and the same options has the same Sandbox. Empty
	// for a random one, so that a claim whose answer was lost is repeated and makes no second Sandbox.
	Key string
}

// Claimed is the Sandbox of a claim.
type Claimed struct {
	Name, Namespace string
	UID             string
	// Ready reports whether the Sandbox can be used now. If it is not, Message says why and what to do, and the Sandbox
	// still exists.
	Ready   bool
	Message string
	// Created is unset for a Sandbox that is Ready and was made by an earlier claim with the same key.
	Created bool
	// URL is the base of its verbs; empty while the provider has not written it.
	URL string
	// Phase is its status.phase, and Start how it started; nil while the provider has not written it.
	Phase string
	Start *sandbarv1alpha1.InstanceStart
}

// Claim creates a Sandbox of a SandboxTemplate and waits until it is Ready, with one call to a data plane. workspace is
// the workspace's path or cluster name. The caller needs the rights to get the template, to create
// sandboxtemplates/claim, and to create, get, list and watch sandboxes.
//
// It fails with [ErrSegment] if one of the names is none, with an [UntrustedError] if the data plane may not get the
// caller's credential, and with a [CallError] if the claim is refused. What may pass, such as too many claims or a
// connection that breaks, is tried again for as long as ctx lasts, at most five times.
func (c *Client) Claim(ctx context.Context, dataPlane, workspace, namespace, template string, opts ClaimOptions) (*Claimed, error) {
	if err := checkSegments(workspace, namespace, template); err != nil {
		return nil, err
	}
	p, u, err := c.planeAt(dataPlane)
	if err != nil {
		return nil, err
	}
	body, err := opts.body()
	if err != nil {
		return nil, err
	}
	if opts.Key == "" {
		opts.Key = rand.Text()
	}
	u = u.JoinPath("dataplane", "clusters", workspace, "namespaces", namespace, "sandboxtemplates", template, "claim")
	var pause pauses
	for try := 1; ; try++ {
		claimed, err := p.claim(ctx, u, opts.Key, body)
		if err == nil || try == claimTries || !claimAgain(err) {
			return claimed, err
		}
		timer := time.NewTimer(pause.next(err))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// claimAgain reports whether a claim that failed may succeed with the same key: of conflicts only one that the data
// plane asks to repeat.
func claimAgain(err error) bool {
	var answer *CallError
	if errors.As(err, &answer) && answer.Code == http.StatusConflict {
		return answer.RetryAfter > 0
	}
	return Temporary(err)
}

// body is what a data plane reads.
func (o *ClaimOptions) body() ([]byte, error) {
	var wait string
	if o.Wait != nil {
		wait = o.Wait.String()
	}
	body, err := json.Marshal(struct {
		Name         string                     `json:"name,omitempty"`
		GenerateName string                     `json:"generateName,omitempty"`
		Labels       map[string]string          `json:"labels,omitempty"`
		Annotations  map[string]string          `json:"annotations,omitempty"`
		Lifecycle    *sandbarv1alpha1.Lifecycle `json:"lifecycle,omitempty"`
		Prewarm      string                     `json:"prewarm,omitempty"`
		Resize       string                     `json:"resize,omitempty"`
		Wait         string                     `json:"wait,omitempty"`

		Env     []sandbarv1alpha1.SandboxEnv     `json:"env,omitempty"`
		EnvFrom []sandbarv1alpha1.SandboxEnvFrom `json:"envFrom,omitempty"`
	}{o.Name, o.GenerateName, o.Labels, o.Annotations, o.Lifecycle, o.Prewarm, o.Resize, wait, o.Env, o.EnvFrom})
	if err != nil {
		return nil, fmt.Errorf("encoding a claim: %w", err)
	}
	return body, nil
}

// claim sends a claim once.
func (p *plane) claim(ctx context.Context, u *url.URL, key string, body []byte) (*Claimed, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("claiming a Sandbox: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(keyHeader, key)
	res, err := p.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("claiming a Sandbox: %w", err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
	default:
		return nil, fmt.Errorf("claiming a Sandbox: %w", readError(res, "claim"))
	}
	var s struct {
		Metadata metav1.ObjectMeta              `json:"metadata"`
		Status   sandbarv1alpha1.InstanceStatus `json:"status"`
		Message  string                         `json:"message"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxClaimAnswer)).Decode(&s); err != nil {
		return nil, fmt.Errorf("reading the answer of a claim: %w", err)
	}
	claimed := &Claimed{
		Name: s.Metadata.Name, Namespace: s.Metadata.Namespace, UID: string(s.Metadata.UID),
		Ready: res.StatusCode != http.StatusAccepted, Created: res.StatusCode == http.StatusCreated, Message: s.Message,
		Phase: string(s.Status.Phase), Start: s.Status.Start,
	}
	if s.Status.DataPlane != nil {
		claimed.URL = s.Status.DataPlane.URL
	}
	return claimed, nil
}
