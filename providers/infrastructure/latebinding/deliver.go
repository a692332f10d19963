// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package latebinding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
)

const (
	envPath = "/env"
	// maxAnswer bounds what is read of an answer: the names of the variables, and the challenge.
	maxAnswer = 64 << 10
)

// ErrUnreached means that the runner of a pod did not answer, or not to the end.
var ErrUnreached = errors.New("the runner of the pod cannot be reached")

// Deliverer reaches the runners of pods. It is safe for concurrent use.
type Deliverer struct {
	base   url.URL
	client *http.Client
}

// New returns a Deliverer with the provider's credential for the runtime cluster. It fails if that cannot be read.
func New(config *rest.Config) (*Deliverer, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for pods: %w", err)
	}
	// The attack: an answer of the pod that leads elsewhere, where the provider's credential would go with the request.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the runtime cluster's address: %w", err)
	}
	return &Deliverer{base: *base, client: client}, nil
}

// RefusedError says that the runner did not take the variables. Its text has the runner's code, and nothing of the request.
type RefusedError struct {
	Status int
	Code   string
}

func (r *RefusedError) Error() string {
	return fmt.Sprintf("the runner refused the variables (%d %s)", r.Status, r.Code)
}

// Deliver sets the variables of a pod's command and has it started again if that changed any. control is the placement's
// Secret with the control token. It returns an error if the pod cannot be reached, does not prove that it has the token,
// refuses the variables (*RefusedError), or if its command cannot be started with them.
func (d *Deliverer) Deliver(ctx context.Context, pod *corev1.Pod, control *corev1.Secret, values map[string][]byte) error {
	session, err := d.agree(ctx, pod, control)
	if err != nil {
		return err
	}
	set := make(map[string]string, len(values))
	for name, value := range values {
		set[name] = string(value)
	}
	body, err := json.Marshal(map[string]any{"set": set, "restart": "auto"})
	if err != nil {
		return errors.New("encoding the variables failed") // not the encoder's words: they may quote a value
	}
	status, answer, err := d.call(ctx, pod, http.MethodPost, envPath, "", body, string(session.AppendProof(nil, http.MethodPost, envPath, "")))
	if err != nil {
		return err
	}
	var reply struct {
		Code         string `json:"code"`
		RestartError *struct {
			Code string `json:"code"`
		} `json:"restartError"`
	}
	if err := json.Unmarshal(answer, &reply); err != nil && status == http.StatusOK {
		return errors.New("the runner's answer is not JSON")
	}
	switch {
	case status != http.StatusOK:
		return &RefusedError{status, shortened(reply.Code)}
	case reply.RestartError != nil:
		return fmt.Errorf("the command was not started with the variables (%s)", shortened(reply.RestartError.Code))
	}
	return nil
}

// agree has the pod prove that it has the placement's control token.
func (d *Deliverer) agree(ctx context.Context, pod *corev1.Pod, control *corev1.Secret) (*controlproof.Session, error) {
	var keys []controlproof.Key
	for _, name := range []string{placement.ControlTokenKey, placement.ControlPreviousKey} {
		if token := strings.TrimSpace(string(control.Data[name])); token != "" {
			keys = append(keys, controlproof.NewKey(token))
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the placement has no control token")
	}
	nonce := controlproof.NewNonce()
	status, answer, err := d.call(ctx, pod, http.MethodGet, controlproof.ChallengePath, controlproof.NonceParameter+"="+url.QueryEscape(nonce), nil, "")
	if err != nil {
		return nil, err
	}
	var challenge controlproof.Challenge
	if status != http.StatusOK || json.Unmarshal(answer, &challenge) != nil {
		return nil, fmt.Errorf("%w: it has no challenge (%d)", ErrUnreached, status)
	}
	return challenge.Accept(string(pod.UID), nonce, keys)
}

func (d *Deliverer) call(ctx context.Context, pod *corev1.Pod, method, path, query string, body []byte, proof string) (status int, answer []byte, err error) {
	at := d.base
	at.Path = strings.TrimSuffix(at.Path, "/") + "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + ":" + strconv.Itoa(podtemplate.RunnerPort) + "/proxy" + path
	at.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("asking the runner: %w", err)
	}
	if proof != "" {
		req.Header.Set(controlproof.Header, proof)
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)) //nolint:forbidigo // maxAnswer
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	return res.StatusCode, answer, nil
}

// shortened is a code of the runner's, which the app in the pod can write: short, and of letters alone.
func shortened(code string) string {
	const most = 64
	kept := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return -1
	}, code)
	return kept[:min(len(kept), most)]
}
