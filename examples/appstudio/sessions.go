// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
)

const (
	cookieName = "appstudio"
	// sessionLife is how long a session lasts. It keeps a token in memory, which may end before.
	sessionLife = 12 * time.Hour
	// maxSessions bounds what is kept of people who never log out.
	maxSessions = 1000
	namespace   = "default"
)

var (
	errNoSession = errors.New("log in first")
	errTooMany   = fmt.Errorf("there are %d sessions, which is the limit: try again later", maxSessions)
	errWorkspace = errors.New("a workspace is a path such as root:team:alice")
	errNoToken   = errors.New("a token is needed: that of your kubeconfig, or of a ServiceAccount of the workspace (kubectl create token NAME)")
	workspaceRE  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// person is one who has logged in: a workspace, and what reaches it with the person's own token.
type person struct {
	Name      string
	Workspace session.Workspace
	Sandboxes *client.Client
	Objects   dynamic.Interface

	path string
	ends time.Time
}

// sessions has the people who have logged in, by the value of their cookie. It is in memory alone: a restart ends them all.
type sessions struct {
	kcp   url.URL
	ca    []byte
	trust session.TrustStore

	mu     sync.Mutex
	people map[string]*person
}

func newSessions(kcp, caFile string, trust session.TrustStore) (*sessions, error) {
	u, err := url.Parse(kcp)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--kcp %q is not https://HOST[:PORT]: people's tokens go there", kcp)
	}
	if _, err := trust.Load(); err != nil {
		return nil, fmt.Errorf("--trust: %w", err)
	}
	s := &sessions{kcp: *u, trust: trust, people: map[string]*person{}}
	if caFile != "" {
		if s.ca, err = os.ReadFile(caFile); err != nil {
			return nil, fmt.Errorf("--kcp-ca: %w", err)
		}
	}
	return s, nil
}

// login asks the workspace who the token belongs to, and begins a session.
func (s *sessions) login(ctx context.Context, workspace, token string) (cookie string, p *person, err error) {
	if !workspaceRE.MatchString(workspace) {
		return "", nil, errWorkspace
	}
	if token == "" {
		return "", nil, errNoToken
	}
	config := &rest.Config{
		Host: s.kcp.JoinPath("clusters", workspace).String(), BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.ca}, QPS: -1, UserAgent: "appstudio",
	}
	who, err := client.WhoAmI(ctx, config)
	if err != nil {
		return "", nil, fmt.Errorf("the workspace refuses the token: %w", err)
	}
	p = &person{Name: who.Username, path: workspace, ends: time.Now().Add(sessionLife)}
	p.Workspace = session.Workspace{Config: config, Namespace: namespace, Trust: s.trust}
	if p.Sandboxes, err = p.Workspace.Client(); err != nil {
		return "", nil, err
	}
	if p.Objects, err = dynamic.NewForConfig(config); err != nil {
		return "", nil, fmt.Errorf("reaching the workspace: %w", err)
	}
	cookie = rand.Text()
	return cookie, p, s.keep(cookie, p)
}

// keep adds a session, and drops those that have ended.
func (s *sessions) keep(cookie string, p *person) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, had := range s.people {
		if time.Now().After(had.ends) {
			s.dropLocked(other)
		}
	}
	if len(s.people) >= maxSessions {
		p.Sandboxes.Close()
		return errTooMany
	}
	s.people[cookie] = p
	return nil
}

// logout ends a session.
func (s *sessions) logout(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(cookie)
}

func (s *sessions) dropLocked(cookie string) {
	if p := s.people[cookie]; p != nil {
		p.Sandboxes.Close()
		delete(s.people, cookie)
	}
}

// of is the person that a request is of.
func (s *sessions) of(r *http.Request) (*person, error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil, errNoSession
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.people[cookie.Value]
	if p == nil || time.Now().After(p.ends) {
		return nil, errNoSession
	}
	return p, nil
}

// setCookie gives a browser its session. Strict and HttpOnly: neither another site nor a script of a page can use or read
// it. A browser sends a Secure cookie to localhost without TLS, too.
func setCookie(w http.ResponseWriter, value string) {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
