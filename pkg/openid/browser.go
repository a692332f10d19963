// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/oauth2"
)

const (
	// DefaultPatience is how long a person has for the login in the browser.
	DefaultPatience = 5 * time.Minute
	callbackPath    = "/callback"
)

// Browser is how a person gets to the issuer's page.
type Browser struct {
	// Open shows a URL to the person: in a browser, or as text. The URL was checked: it is https, or http on this machine.
	Open func(ctx context.Context, address string) error
	// Port is the one of 127.0.0.1 that the browser comes back to; any that is free if it is zero.
	Port uint16
	// Patience is how long the person has; [DefaultPatience] if it is zero.
	Patience time.Duration
}

// ErrPatience means that nobody came back from the browser in time.
var ErrPatience = errors.New("nobody has come back from the browser")

// answer is what a browser brings back.
type answer struct {
	code string
	err  error
}

// Login logs a person in with the browser, and returns when they have come back or the context ends.
func (p *Provider) Login(ctx context.Context, b Browser) (Tokens, error) {
	patience := b.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var config net.ListenConfig
	listener, err := config.Listen(limited, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(b.Port))))
	if err != nil {
		return Tokens{}, fmt.Errorf("listening for the browser: %w", err)
	}
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	answers := make(chan answer, 1)
	server := &http.Server{Handler: callback(state, answers), ReadHeaderTimeout: exchangeTimeout, MaxHeaderBytes: 64 << 10}
	go func() { _ = server.Serve(listener) }()
	defer func() {
		// The page that says that the login is done is on its way to the browser.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	}()

	client := p.oauth
	client.RedirectURL = "http://" + listener.Addr().String() + callbackPath
	address := client.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("nonce", nonce))
	// It was checked when the issuer was discovered; this is the last line before a program of this machine gets it.
	if err := checkURL("authorization_endpoint", address); err != nil {
		return Tokens{}, err
	}
	if err := b.Open(limited, address); err != nil {
		return Tokens{}, fmt.Errorf("showing the issuer's page: %w", err)
	}
	select {
	case <-limited.Done():
		if ctx.Err() != nil {
			return Tokens{}, ctx.Err()
		}
		return Tokens{}, fmt.Errorf("%w within %s", ErrPatience, patience)
	case got := <-answers:
		if got.err != nil {
			return Tokens{}, got.err
		}
		return p.exchange(limited, client.RedirectURL, got.code, verifier, nonce)
	}
}

// callback answers the browser that comes back. Only the first request with the login's state counts: any page that the
// browser shows can send others here.
func callback(state string, answers chan<- answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet || r.URL.Path != callbackPath || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(state)) != 1 {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "This is not the login that is waiting.\n")
			return
		}
		got := answer{code: query.Get("code")}
		text := "You can close this page and return to the terminal.\n"
		switch {
		case query.Get("error") != "":
			got.err = &IssuerError{Code: query.Get("error"), Description: query.Get("error_description")}
			text = "The login failed. The terminal says why.\n"
		case got.code == "":
			got.err = errors.New("the browser came back without a code")
			text = "The login failed. The terminal says why.\n"
		}
		select {
		case answers <- got:
		default: // there was one
		}
		_, _ = io.WriteString(w, text)
	})
}
