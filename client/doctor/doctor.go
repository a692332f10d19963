// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
)

// checkTimeout bounds each check, unless the options have another bound.
const checkTimeout = 10 * time.Second

// State is the outcome of a check.
type State string

// The outcomes. A warning is something that works and should not be so, or that could not be looked at.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failed  State = "failed"
	Skipped State = "skipped"
)

// Check is one step on the way and its outcome.
type Check struct {
	// Name is one of [Names].
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"`
	// Problem is what is wrong; empty if nothing is.
	Problem Problem `json:"problem,omitempty"`
	// Subject is what the remedy is about: a URL, a namespace, a binding.
	Subject string `json:"subject,omitempty"`
}

// The names of the checks, in their order.
const (
	Kubeconfig = "kubeconfig"
	Server     = "server"
	TLS        = "TLS"
	Credential = "credential"
	Workspace  = "workspace"
	Binding    = "binding"
	DataPlane  = "data plane"
	Rights     = "rights"
)

// Names are those of the checks, in their order.
var Names = []string{Kubeconfig, Server, TLS, Credential, Workspace, Binding, DataPlane, Rights}

// Problem is a kind of failure that has a remedy.
type Problem string

// The problems.
const (
	NoKubeconfig      Problem = "NoKubeconfig"
	NotAWorkspace     Problem = "NotAWorkspace"
	Unreachable       Problem = "Unreachable"
	Redirects         Problem = "Redirects"
	NotVerified       Problem = "NotVerified"
	VerificationOff   Problem = "VerificationOff"
	CertificateEnds   Problem = "CertificateEnds"
	CredentialUnknown Problem = "CredentialUnknown" //nolint:gosec // G101: the name of a problem
	NoCredential      Problem = "NoCredential"      //nolint:gosec // G101: the name of a problem
	OnlyCertificate   Problem = "OnlyCertificate"
	NoAccess          Problem = "NoAccess"
	NoNamespace       Problem = "NoNamespace"
	NotBound          Problem = "NotBound"
	NotServed         Problem = "NotServed"
	ClaimMissing      Problem = "ClaimMissing"
	BindingsHidden    Problem = "BindingsHidden"
	NoDataPlane       Problem = "NoDataPlane"
	NotTrusted        Problem = "NotTrusted"
	OtherCA           Problem = "OtherCA"
	DataPlaneSilent   Problem = "DataPlaneSilent"
	NoRight           Problem = "NoRight"
	SomeRights        Problem = "SomeRights"
	Unknown           Problem = "Unknown"
)

// Options say who is examined.
type Options struct {
	// Config returns the way to the workspace, with the credential and the namespace. Its error is that of the first check.
	Config func() (*rest.Config, string, error)
	// Trust has the data planes that may get the credential.
	Trust session.TrustStore
	// Resource is that of the instances; its rights are looked at.
	Resource schema.GroupVersionResource
	// Timeout is how long each check may take; 10 s if it is zero.
	Timeout time.Duration
}

// examination is one run.
type examination struct {
	Options
	cfg       *rest.Config
	namespace string
	objects   dynamic.Interface
	me        *client.Identity
	offer     *client.Offer
	denied    error // of the question who the caller is

	checks []Check
}

// Examine makes the checks. It returns what it has when the context ends.
func Examine(ctx context.Context, opts Options) []Check {
	e := &examination{Options: opts}
	if e.Timeout == 0 {
		e.Timeout = checkTimeout
	}
	for _, step := range []struct {
		name  string
		needs []string
		run   func(context.Context) Check
	}{
		{Kubeconfig, nil, e.kubeconfig},
		{Server, []string{Kubeconfig}, e.server},
		{TLS, []string{Kubeconfig, Server}, e.tls},
		{Credential, []string{TLS}, e.credential},
		{Workspace, []string{Credential}, e.workspace},
		{Binding, []string{Workspace}, e.binding},
		{DataPlane, []string{Binding}, e.dataPlane},
		{Rights, []string{Binding}, e.rights},
	} {
		if ctx.Err() != nil {
			return e.checks
		}
		if missing := e.missing(step.needs); missing != "" {
			e.checks = append(e.checks, Check{Name: step.name, State: Skipped, Detail: "needs the " + missing})
			continue
		}
		limited, cancel := context.WithTimeout(ctx, e.Timeout)
		check := step.run(limited)
		if limited.Err() != nil && check.State != OK && e.cfg != nil {
			check = failed(Unreachable, hostOf(e.cfg.Host), "there is no answer within %s", e.Timeout)
		}
		cancel()
		if ctx.Err() != nil {
			return e.checks
		}
		check.Name = step.name
		e.checks = append(e.checks, check)
	}
	return e.checks
}

// missing is the first of some checks whose failure leaves nothing to look at. A workspace without the namespace can be
// bound.
func (e *examination) missing(names []string) string {
	for _, name := range names {
		for _, c := range e.checks {
			if c.Name == name && (c.State == Failed || c.State == Skipped) && c.Problem != NoNamespace {
				return name
			}
		}
	}
	return ""
}

func passed(format string, args ...any) Check {
	return Check{State: OK, Detail: fmt.Sprintf(format, args...)}
}

func failed(problem Problem, subject, format string, args ...any) Check {
	return Check{State: Failed, Problem: problem, Subject: subject, Detail: fmt.Sprintf(format, args...)}
}

func warning(problem Problem, subject, format string, args ...any) Check {
	return Check{State: Warning, Problem: problem, Subject: subject, Detail: fmt.Sprintf(format, args...)}
}
