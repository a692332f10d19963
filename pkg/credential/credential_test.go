// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// tokenOf is a token as an API server makes it, without its signature.
func tokenOf(issued, expires time.Time) string {
	claims := fmt.Sprintf(`{"sub":"system:serviceaccount:sandbar-system:sandbar-serve","iat":%d,"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":"u-1"}}}`,
		issued.Unix(), expires.Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func write(t *testing.T, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "serve.token")
	if err := WriteFile(file, []byte(token)); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestATokenSaysWhoseItIsAndHowLongItLasts(t *testing.T) {
	issued := time.Unix(1_000_000, 0)
	got, err := Parse(tokenOf(issued, issued.Add(6*time.Hour)) + "\n")
	want := Token{Namespace: "sandbar-system", Name: "sandbar-serve", UID: "u-1", Issued: issued, Expires: issued.Add(6 * time.Hour)}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if due := got.Due().Sub(issued); due != 2*time.Hour {
		t.Errorf("due after %s, want a third of its life", due)
	}
	long, _ := Parse(tokenOf(issued, issued.Add(30*24*time.Hour)))
	if due := long.Due().Sub(issued); due != 24*time.Hour {
		t.Errorf("due after %s, want a day", due)
	}
	for _, text := range []string{"", "opaque", "a.b.c", "e30.e30.c2ln", "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"alice"}`)) + ".c2ln"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is taken for a token", text)
		}
	}
}

func TestATokenIsRenewedBeforeItEndsAndAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		file := write(t, tokenOf(began, began.Add(6*time.Hour)))
		var asked []time.Duration
		fails := 2
		var logged bytes.Buffer
		r := &Renewer{
			name: "serve", file: file, log: slog.New(slog.NewTextHandler(&logged, nil)),
			request: func(_ context.Context, namespace, name string, seconds int64) (string, error) {
				asked = append(asked, time.Since(began))
				if namespace != "sandbar-system" || name != "sandbar-serve" || seconds != 6*3600 {
					t.Errorf("asked for %s/%s, %d s", namespace, name, seconds)
				}
				if fails > 0 {
					fails--
					return "", errors.New("connection refused")
				}
				return tokenOf(time.Now(), time.Now().Add(6*time.Hour)), nil
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		time.Sleep(5 * time.Hour)
		stop()
		<-done
		want := []time.Duration{2 * time.Hour, 2*time.Hour + 10*time.Second, 2*time.Hour + 30*time.Second, 4*time.Hour + 30*time.Second}
		if fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("asked at %v, want %v", asked, want)
		}
		now, err := Read(file)
		if err != nil || now.Expires.Sub(began) != 10*time.Hour+30*time.Second {
			t.Errorf("the file holds one until %s, %v", now.Expires.Sub(began), err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("its mode is %v, %v", info.Mode(), err)
		}
		raw, _ := os.ReadFile(file)
		if strings.Contains(logged.String(), string(raw)) {
			t.Error("the token is in the log")
		}
	})
}

// init was run again with a shorter lifetime, and the admission policy holds the old token to it. It would
// expire, and the provider with it.
func TestATokenIsRenewedForLessWhereLessIsAllowed(t *testing.T) {
	now := time.Now()
	file := write(t, tokenOf(now.Add(-5*time.Hour), now.Add(time.Hour)))
	allowed := int64(3600)
	r := &Renewer{file: file, log: slog.New(slog.DiscardHandler), request: func(_ context.Context, _, _ string, seconds int64) (string, error) {
		if seconds > allowed {
			return "", apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "sandbar-serve", errors.New("an identity of Sandbar renews its own token for as long as init has given it"))
		}
		return tokenOf(now, now.Add(time.Duration(seconds)*time.Second)), nil
	}}
	if _, err := r.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, err := Read(file)
	if err != nil || token.Lifetime() != 45*time.Minute {
		t.Errorf("the next one lasts %v, %v", token.Lifetime(), err)
	}
	allowed = 0
	if _, err := r.next(t.Context(), token); !apierrors.IsForbidden(err) {
		t.Errorf("where none is allowed: %v", err)
	}
}

// Several processes share a file, and init may replace it.
func TestATokenThatAnotherHasRenewedIsLeftAlone(t *testing.T) {
	now := time.Now()
	file := write(t, tokenOf(now.Add(-time.Minute), now.Add(6*time.Hour)))
	r := &Renewer{file: file, request: func(context.Context, string, string, int64) (string, error) {
		t.Error("another one was asked for")
		return "", nil
	}}
	if wait, err := r.look(t.Context()); err != nil || wait != lookMost {
		t.Errorf("looks again after %s, %v", wait, err)
	}
}

// init with a shorter --token-lifetime, while a process waits to renew a token of a week.
func TestATokenThatIsReplacedByAShorterOneIsRenewedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forAnHour := func() string { return tokenOf(time.Now(), time.Now().Add(time.Hour)) }
		file := write(t, tokenOf(time.Now(), time.Now().Add(7*24*time.Hour)))
		r := &Renewer{file: file, log: slog.New(slog.DiscardHandler), request: func(context.Context, string, string, int64) (string, error) {
			return forAnHour(), nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		defer func() { stop(); <-done }() // before its folder goes
		time.Sleep(time.Minute)
		if err := WriteFile(file, []byte(forAnHour())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if token, err := Read(file); err != nil || time.Now().After(token.Expires) {
			t.Errorf("the token ended at %s, %v", token.Expires, err)
		}
	})
}

func TestAFolderThatCannotBeWrittenIsTold(t *testing.T) {
	now := time.Now()
	file := write(t, tokenOf(now.Add(-5*time.Hour), now.Add(time.Hour)))
	r := &Renewer{file: file, log: slog.New(slog.DiscardHandler), request: func(context.Context, string, string, int64) (string, error) {
		// As root a mode keeps nobody out: the folder goes.
		return tokenOf(now, now.Add(6*time.Hour)), os.RemoveAll(filepath.Dir(file))
	}}
	if _, err := r.look(t.Context()); err == nil || !strings.Contains(err.Error(), "must be able to write") {
		t.Errorf("err = %v", err)
	}
}

func TestAProcessSaysAtItsStartThatItsTokenHasEnded(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		token  string
		inline bool
		err    string
		warns  string
		renews bool
	}{
		"a token that is good is renewed":                  {token: tokenOf(now, now.Add(time.Hour)), renews: true},
		"one that has ended needs an administrator":        {token: tokenOf(now.Add(-2*time.Hour), now.Add(-time.Hour)), err: "run sandbar-provider init again"},
		"what is no token is an error":                     {token: "opaque", err: "not the token of a ServiceAccount"},
		"one of an earlier version is used with a warning": {token: tokenOf(now, time.Unix(0, 0)), inline: true, warns: "run sandbar-provider init again"},
		"what somebody else issues is not ours to renew":   {token: "opaque", inline: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &rest.Config{Host: "https://runtime.test", BearerToken: tc.token}
			if !tc.inline {
				cfg.BearerTokenFile = write(t, tc.token)
			}
			var logged bytes.Buffer
			r, err := New("serve", "serve.kubeconfig", cfg, slog.New(slog.NewTextHandler(&logged, nil)))
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("err = %v, want %q", err, tc.err)
			}
			if (r != nil) != tc.renews {
				t.Errorf("renews: %v", r != nil)
			}
			if (tc.warns != "") != (logged.Len() > 0) || !strings.Contains(logged.String(), tc.warns) {
				t.Errorf("logged %q, want %q", logged.String(), tc.warns)
			}
			if strings.Contains(fmt.Sprint(logged.String(), err), tc.token) && tc.token != "opaque" {
				t.Error("the token is told")
			}
		})
	}
}

func TestTheMetricSaysWhenACredentialExpires(t *testing.T) {
	at := time.Unix(2_000_000_000, 0)
	c := Collector{{name: "serve-kcp", file: write(t, tokenOf(time.Now(), at))}, {name: "gone", file: "/no/such/file"}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "sandbar_credential_expires_timestamp_seconds" || len(families[0].GetMetric()) != 1 {
		t.Fatalf("got %v, %v", families, err)
	}
	metric := families[0].GetMetric()[0]
	if label := metric.GetLabel()[0]; label.GetValue() != "serve-kcp" || metric.GetGauge().GetValue() != 2e9 {
		t.Errorf("got %v", metric)
	}
}
