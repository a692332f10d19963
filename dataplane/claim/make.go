// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Workspace asks kcp as the caller; *tenant.Client does it.
type Workspace interface {
	Create(ctx context.Context, caller tenant.Caller, ref tenant.Ref, obj, out any) tenant.Written
	Get(ctx context.Context, caller tenant.Caller, ref tenant.Ref, obj any) tenant.Answer
	List(ctx context.Context, caller tenant.Caller, ref tenant.Ref, selector string) ([]metav1.PartialObjectMetadata, tenant.Answer)
	Watch(ctx context.Context, caller tenant.Caller, ref tenant.Ref, version string, done func(json.RawMessage) (bool, error)) tenant.Answer
}

// Calls of kcp, for metrics.
const (
	CallCreate = "create"
	CallGet    = "get"
	CallList   = "list"
	CallWatch  = "watch"
)

// Claim is one request of a caller.
type Claim struct {
	Workspace Workspace
	// Called is told of each answer of kcp.
	Called func(call string, outcome tenant.Outcome)
	// Room refuses if there is no room for another Sandbox; it is asked before one is created.
	Room    func() *refusal.Error
	Caller  tenant.Caller
	Kind    Kind
	Request *Request
	// Sandboxes names the workspace, the namespace and the resource of the Sandbox; its Name does not count.
	Sandboxes tenant.Ref
	// Template is the name of the SandboxTemplate.
	Template string
}

// Make creates the Sandbox, or finds the one that the idempotency key has made; then created is false.
func (c *Claim) Make(ctx context.Context) (s *Sandbox, created bool, refused *refusal.Error) {
	name := c.Request.Name
	if c.Request.Key != "" {
		found, former, refused := c.find(ctx)
		if refused != nil {
			return nil, false, refused
		}
		if found != nil {
			return found, false, nil
		}
		name = c.Request.nameFor(c.Template, former)
	}
	if refused := c.Room(); refused != nil {
		return nil, false, refused
	}
	s = &Sandbox{}
	got := c.Workspace.Create(ctx, c.Caller, c.Sandboxes, c.Request.object(c.Kind, c.Sandboxes.Namespace, c.Template, name), s)
	c.Called(CallCreate, got.Outcome)
	switch {
	case got.Outcome == tenant.Allowed:
		return s, true, nil
	case got.Code == http.StatusConflict && c.Request.Key != "":
		s, refused = c.taken(ctx, name)
		return s, false, refused
	}
	return nil, false, c.notCreated(got, name)
}

// find finds the Sandbox that the key has made within the last day. former is the UID of the last one that it made
// before; empty for none.
func (c *Claim) find(ctx context.Context) (s *Sandbox, former string, refused *refusal.Error) {
	list, got := c.Workspace.List(ctx, c.Caller, c.Sandboxes, placement.LabelIdempotencyKey+"="+idempotency.Hash(c.Request.Key))
	c.Called(CallList, got.Outcome)
	if refused := c.judge(got, "list", " to find the Sandbox of an idempotency key; or send the request without one"); refused != nil {
		return nil, "", refused
	}
	var last time.Time
	for i := range list {
		obj := &list[i]
		made := obj.CreationTimestamp.Time
		switch {
		case obj.Annotations[placement.AnnotationIdempotencyKey] != c.Request.Key: // a label is anybody's to write
		case time.Since(made) >= idempotency.Window:
			if made.After(last) {
				last, former = made, string(obj.UID)
			}
		case obj.DeletionTimestamp == nil:
			if refused := c.compare(obj); refused != nil {
				return nil, "", refused
			}
			s, refused := c.read(ctx, obj.Name)
			if s != nil || refused != nil {
				return s, "", refused
			}
		}
	}
	return nil, former, nil
}

// taken is for a name that is another Sandbox's: that which the same request has made a moment ago, or one that is going.
func (c *Claim) taken(ctx context.Context, name string) (*Sandbox, *refusal.Error) {
	s, refused := c.read(ctx, name)
	switch {
	case refused != nil:
		return nil, refused
	case s == nil || s.Metadata.DeletionTimestamp != nil:
		e := refusal.NotReady(fmt.Sprintf("Sandbox %s, which has the name, is being deleted: send the request again in a moment", name), nil)
		return nil, e
	case s.Metadata.Annotations[placement.AnnotationIdempotencyKey] != c.Request.Key:
		return nil, nameTaken(name)
	}
	return s, c.compare(&s.Metadata)
}

// compare refuses a key that was used for another request.
func (c *Claim) compare(made metav1.Object) *refusal.Error {
	if made.GetAnnotations()[placement.AnnotationClaimRequest] == c.Request.digest(c.Template) {
		return nil
	}
	return refusal.KeyReused(fmt.Sprintf("the idempotency key was used at %s for another request, which made Sandbox %s: use another key for another request",
		made.GetCreationTimestamp().UTC().Format(time.RFC3339), made.GetName()))
}

// read reads a Sandbox; nil if it is gone.
func (c *Claim) read(ctx context.Context, name string) (*Sandbox, *refusal.Error) {
	s := &Sandbox{}
	got := c.Workspace.Get(ctx, c.Caller, c.ref(name), s)
	c.Called(CallGet, got.Outcome)
	if got.Outcome == tenant.NotFound {
		return nil, nil //nolint:nilnil // it is gone
	}
	return s, c.judge(got, "get", " to be told of the Sandbox")
}

func (c *Claim) ref(name string) tenant.Ref {
	ref := c.Sandboxes
	ref.Name = name
	return ref
}

// judge refuses what kcp did not allow or answer. The caller may use the verb in the workspace, and so may know what
// of it needs which right.
func (c *Claim) judge(got tenant.Answer, verb, why string) *refusal.Error {
	switch got.Outcome {
	case tenant.Allowed:
		return nil
	case tenant.Unauthorized:
		return refusal.Unauthorized(refusal.CauseBadIdentity)
	case tenant.Denied, tenant.NoAccess:
		return c.denied(verb, why)
	case tenant.NotFound:
		return c.notServed()
	case tenant.Unavailable, tenant.ClaimNotAccepted, tenant.Refused:
	}
	return refusal.Unavailable(refusal.CauseKcp, "the workspace's API did not answer: try again", got.RetryAfter, got.Err)
}

func (c *Claim) denied(verb, why string) *refusal.Error {
	e := refusal.Forbidden()
	e.Message = fmt.Sprintf("access denied: the verb claim works with your own rights, and you need the right to %s %s in namespace %s%s", verb, c.Sandboxes.Resource, c.Sandboxes.Namespace, why)
	return e
}

func (c *Claim) notServed() *refusal.Error {
	e := refusal.NotFound(refusal.CauseNoInstance)
	e.Message = fmt.Sprintf("the workspace has no namespace %s, or does not serve %s: create the namespace, or ask the operator whether the provider offers the kind", c.Sandboxes.Namespace, c.Sandboxes.Resource)
	return e
}

func nameTaken(name string) *refusal.Error {
	return refusal.NameTaken(fmt.Sprintf("there is a Sandbox %s already: choose another name, or leave it out and have one made", name))
}

// quotaWords are in what kcp says when a ResourceQuota is used up.
const quotaWords = "exceeded quota"

// notCreated is why kcp has not created the Sandbox.
func (c *Claim) notCreated(got tenant.Written, name string) *refusal.Error {
	words := ""
	if got.Words != "" {
		words = ": " + got.Words
	}
	switch {
	case got.Code == http.StatusConflict:
		return nameTaken(name)
	case got.Outcome == tenant.Refused:
		return refusal.Invalid("the workspace does not take the Sandbox" + words)
	case got.Outcome == tenant.Denied && strings.Contains(got.Words, quotaWords):
		return refusal.QuotaExceeded("a ResourceQuota of the workspace has no room for another Sandbox: delete some, or ask the workspace's administrator to raise it" + words)
	case got.Outcome == tenant.Denied && got.Code == 0:
		e := refusal.Forbidden()
		e.Message = "access denied: a Sandbox is created with the caller's own token, and you came without one: create a SandboxClaim instead"
		return e
	case got.Outcome == tenant.Denied && got.Words != "" && !strings.Contains(got.Words, "cannot create resource"):
		e := c.denied("create", "") // an admission policy of the workspace, in its own words
		e.Message = "the workspace does not admit the Sandbox" + words
		return e
	case got.Outcome == tenant.Denied:
		return c.denied("create", "; ask the workspace's administrator for it")
	case got.Outcome == tenant.Unavailable && got.Code == 0:
		return c.unknown(got.Err)
	}
	return c.judge(got.Answer, "create", "")
}

// unknown is for a creation that kcp did not answer.
func (c *Claim) unknown(err error) *refusal.Error {
	next := "look for it before you send the request again: kubectl get " + c.Sandboxes.Resource
	if c.Request.Key != "" {
		next = "send the request again with the same idempotency key"
	}
	return refusal.Unanswered("the workspace's API did not answer whether the Sandbox was created: "+next, err)
}
