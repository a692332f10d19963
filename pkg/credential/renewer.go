// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/pause"
)

const (
	// requestTimeout bounds one renewal: a server that hangs must not hold up the next try.
	requestTimeout = 30 * time.Second
	// retryFirst and retryMost bound the time between tries that fail. At least two thirds of the
	// token's life are left for them.
	retryFirst = 10 * time.Second
	retryMost  = 10 * time.Minute
	// lookMost bounds the time between looks at the file.
	lookMost = 10 * time.Minute
	// leastSeconds is the shortest lifetime that Kubernetes gives a token.
	leastSeconds = 600
)

// Renewer renews the token file of one configuration.
type Renewer struct {
	name, file string
	request    func(ctx context.Context, namespace, name string, seconds int64) (string, error)
	log        *slog.Logger
}

// New makes a Renewer for a configuration that was read from a kubeconfig; name says in logs and
// metrics which. It returns nil for a configuration without a token file, which nobody here can
// renew, and an error for a token that has expired already.
func New(name, kubeconfig string, cfg *rest.Config, log *slog.Logger) (*Renewer, error) {
	if cfg.BearerTokenFile == "" {
		if token, err := Parse(cfg.BearerToken); err == nil {
			log.Warn("the credential is part of the kubeconfig and is not renewed: run sandbar-provider init again, with --out, for one that is",
				"credential", name, "kubeconfig", kubeconfig, "expires", token.Expires)
		}
		return nil, nil
	}
	token, err := Read(cfg.BearerTokenFile)
	if err != nil {
		return nil, fmt.Errorf("reading the token of %s: %w", kubeconfig, err)
	}
	if !token.Expires.IsZero() && time.Now().After(token.Expires) {
		return nil, fmt.Errorf("the token in %s expired at %s, while nothing ran that renews it: run sandbar-provider init again, with --out",
			cfg.BearerTokenFile, token.Expires.Format(time.RFC3339))
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting with %s: %w", kubeconfig, err)
	}
	return &Renewer{name: name, file: cfg.BearerTokenFile, log: log, request: requestToken(client)}, nil
}

func requestToken(client kubernetes.Interface) func(context.Context, string, string, int64) (string, error) {
	return func(ctx context.Context, namespace, name string, seconds int64) (string, error) {
		answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return answer.Status.Token, nil
	}
}

// Run renews until ctx ends. What fails is tried again, and told: a process must not end because
// its next token cannot be had while the last one is good.
func (r *Renewer) Run(ctx context.Context) {
	retry := retryFirst
	for {
		wait, err := r.look(ctx)
		if err == nil {
			retry = retryFirst
		} else {
			if ctx.Err() != nil {
				return
			}
			wait = retry
			r.log.Error("the credential could not be renewed and is tried again", "credential", r.name, "file", r.file, "error", err)
			retry = min(2*retry, retryMost)
		}
		if pause.For(ctx, wait) != nil {
			return
		}
	}
}

// look renews the token if that is due, and returns when to look again. It reads the file each
// time: another process that shares it, or init, may have been first.
func (r *Renewer) look(ctx context.Context) (time.Duration, error) {
	token, err := Read(r.file)
	if err != nil {
		return 0, err
	}
	if token.Expires.IsZero() {
		return lookMost, nil // it may be replaced by one that ends
	}
	if wait := time.Until(token.Due()); wait > 0 {
		// Not all of it: init may replace the token by one that lasts for less, and a machine that
		// was suspended wakes with a timer that has not run.
		return min(wait, lookMost), nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	next, err := r.next(ctx, token)
	if err != nil {
		return 0, fmt.Errorf("asking for the next token of ServiceAccount %s/%s: %w", token.Namespace, token.Name, err)
	}
	fresh, err := Parse(next)
	if err != nil {
		return 0, fmt.Errorf("the next token of ServiceAccount %s/%s: %w", token.Namespace, token.Name, err)
	}
	if err := WriteFile(r.file, []byte(next)); err != nil {
		return 0, fmt.Errorf("replacing the token, whose folder this process must be able to write: %w", err)
	}
	r.log.Info("renewed the credential", "credential", r.name, "expires", fresh.Expires)
	// A server may give less than was asked for, but a loop must not follow from it.
	return min(max(time.Until(fresh.Due()), retryFirst), lookMost), nil
}

// next asks for a token that lasts as long as the last one, or for less where that is not allowed any
// more: init may have been run again with a shorter --token-lifetime, which the admission policy then
// holds the old token to.
func (r *Renewer) next(ctx context.Context, last Token) (string, error) {
	for seconds := int64(last.Lifetime().Seconds()); ; seconds = max(seconds/2, leastSeconds) {
		next, err := r.request(ctx, last.Namespace, last.Name, seconds)
		if !apierrors.IsForbidden(err) || seconds <= leastSeconds {
			return next, err
		}
	}
}

// expiresDesc describes the one metric.
var expiresDesc = prometheus.NewDesc("sandbar_credential_expires_timestamp_seconds",
	"When a credential of the provider expires, as its token says; absent for one that never does.", []string{"credential"}, nil)

// Collector tells when the tokens expire. It keeps nothing that could drift.
type Collector []*Renewer

// Describe implements prometheus.Collector.
func (c Collector) Describe(out chan<- *prometheus.Desc) { out <- expiresDesc }

// Collect implements prometheus.Collector.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	for _, r := range c {
		if token, err := Read(r.file); err == nil && !token.Expires.IsZero() {
			out <- prometheus.MustNewConstMetric(expiresDesc, prometheus.GaugeValue, float64(token.Expires.Unix()), r.name)
		}
	}
}
