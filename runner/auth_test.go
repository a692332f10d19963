// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

const (
	testPodUID    = "7f1c0d5e-1f0b-4f4e-9c51-0d4c7c1f7a10"
	laterToken    = "a-token-that-came-with-a-rotation"
	editedToken   = "a-token-that-somebody-has-typed"
	refusedReason = "X-Sandbox-Control-Refused"
)

// mount is what the kubelet makes of a Secret: a directory that is replaced by one rename.
type mount struct {
	t   *testing.T
	dir string
}

func newMount(t *testing.T, entries map[string]string) mount {
	m := mount{t, t.TempDir()}
	for _, name := range []string{"token", previousFile} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.write(entries)
	return m
}

func (m mount) file() string { return filepath.Join(m.dir, "token") }

func (m mount) write(entries map[string]string) {
	m.t.Helper()
	version, err := os.MkdirTemp(m.dir, "..")
	if err != nil {
		m.t.Fatal(err)
	}
	for name, value := range entries {
		if err := os.WriteFile(filepath.Join(version, name), []byte(value), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	link := filepath.Join(m.dir, "..new")
	if err := os.Symlink(filepath.Base(version), link); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(m.dir, "..data")); err != nil {
		m.t.Fatal(err)
	}
}

// guarded serves a runner's log to who may have it.
func guarded(t *testing.T, source Tokens, podUID string) *server {
	t.Helper()
	return newServer(server{config: Config{Tokens: source, PodUID: podUID}, logger: slog.New(slog.DiscardHandler), ring: ringlog.New(0)})
}

func send(s *server, method, path string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Header = header
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec.Result()
}

// session asks for a challenge and accepts it; nil if the runner has none of the tokens.
func session(t *testing.T, s *server, tokens ...string) *controlproof.Session {
	t.Helper()
	nonce := controlproof.NewNonce()
	res := send(s, "GET", controlproof.ChallengePath+"?"+controlproof.NonceParameter+"="+url.QueryEscape(nonce), nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the challenge is %d", res.StatusCode)
	}
	var c controlproof.Challenge
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
		t.Fatal(err)
	}
	var keys []controlproof.Key
	for _, token := range tokens {
		keys = append(keys, controlproof.NewKey(token))
	}
	accepted, err := c.Accept(testPodUID, nonce, keys)
	if err != nil {
		return nil
	}
	return accepted
}

func proven(s *controlproof.Session, method, path, query string) http.Header {
	return http.Header{controlproof.Header: {string(s.AppendProof(nil, method, path, query))}}
}

func lostQuery(query string) http.Header { return http.Header{controlproof.QueryHeader: {query}} }

// lost is a proof for a query that comes in a header.
func lost(s *controlproof.Session, query string) http.Header {
	return merged(proven(s, "GET", "/logs", query), lostQuery(query))
}

func merged(a, b http.Header) http.Header {
	maps.Copy(a, b)
	return a
}

func TestAProofIsTakenInPlaceOfTheToken(t *testing.T) {
	s := guarded(t, tokensOf(t, testToken), testPodUID)
	in := session(t, s, testToken)
	if in == nil {
		t.Fatal("the runner does not prove that it has the token")
	}
	good := proven(in, "GET", "/logs", "tail=1")
	both := proven(in, "GET", "/logs", "")
	both[TokenHeader] = []string{testToken}
	twice := proven(in, "GET", "/logs", "")
	twice[controlproof.Header] = append(twice[controlproof.Header], proven(in, "GET", "/logs", "")[controlproof.Header]...)
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		code               int
		reason             controlproof.RefusedError
	}{
		{"a proof", "GET", "/logs?tail=1", good, 200, ""},
		{"the same once more", "GET", "/logs?tail=1", good, 401, controlproof.ErrReplayed},
		{"one for another query", "GET", "/logs?tail=2", proven(in, "GET", "/logs", "tail=1"), 401, controlproof.ErrProof},
		{"one for another path", "GET", "/files", proven(in, "GET", "/logs", ""), 401, controlproof.ErrProof},
		{"one for another method", "POST", "/restart", proven(in, "GET", "/restart", ""), 401, controlproof.ErrProof},
		{"a path in another encoding", "GET", "/%6cogs", proven(in, "GET", "/logs", ""), 200, ""},
		{"a query that was lost on the way", "GET", "/logs", lost(in, "tail=x"), 400, ""},
		{"a query that nobody has proven", "GET", "/logs", merged(proven(in, "GET", "/logs", ""), lostQuery("tail=x")), 401, controlproof.ErrProof},
		{"a query beside one that was lost", "GET", "/logs?tail=1", lost(in, "tail=x"), 401, controlproof.ErrProof},
		{"a lost query and no proof of it", "GET", "/logs", merged(http.Header{TokenHeader: {testToken}}, lostQuery("tail=x")), 200, ""},
		{"none", "GET", "/logs", nil, 401, controlproof.ErrMissing},
		{"one beside the token", "GET", "/logs", both, 401, controlproof.ErrMissing},
		{"two", "GET", "/logs", twice, 401, controlproof.ErrMissing},
		{"nonsense", "GET", "/logs", http.Header{controlproof.Header: {"v1"}}, 401, controlproof.ErrMalformed},
		{"the token itself", "GET", "/logs", http.Header{TokenHeader: {testToken}}, 200, ""},
		{"another token", "GET", "/logs", http.Header{TokenHeader: {laterToken}}, 401, controlproof.ErrToken},
		{"a stranger's challenge", "GET", "/challenge", nil, 400, ""},
		{"a challenge by another method", "POST", "/challenge", nil, 401, controlproof.ErrMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := send(s, c.method, c.path, c.header)
			if res.StatusCode != c.code || res.Header.Get(refusedReason) != string(c.reason) {
				body, _ := io.ReadAll(res.Body)
				t.Errorf("got %d %q %s, want %d %q", res.StatusCode, res.Header.Get(refusedReason), body, c.code, c.reason)
			}
		})
	}
}

func TestARunnerThatDoesNotKnowItsPodTakesNoProofs(t *testing.T) {
	s := guarded(t, tokensOf(t, testToken), "")
	knowing := guarded(t, tokensOf(t, testToken), testPodUID)
	in := session(t, knowing, testToken)
	if res := send(s, "GET", "/logs", proven(in, "GET", "/logs", "")); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a proof got %d", res.StatusCode)
	}
	if res := send(s, "GET", "/challenge?nonce="+controlproof.NewNonce(), nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a challenge got %d, although other paths are 401 to strangers", res.StatusCode)
	}
	if res := send(s, "GET", "/logs", http.Header{TokenHeader: {testToken}}); res.StatusCode != http.StatusOK {
		t.Errorf("the token got %d", res.StatusCode)
	}
}

// The Secret changes while the runner runs: it is neither started again nor locks anybody out.
func TestTokensThatChangeInTheirFiles(t *testing.T) {
	m := newMount(t, map[string]string{"token": testToken})
	source, err := tokensIn(m.file())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := guarded(t, source, testPodUID)
		former := session(t, s, testToken)
		passes := func(in *controlproof.Session) bool {
			return send(s, "GET", "/logs", proven(in, "GET", "/logs", "")).StatusCode == http.StatusOK
		}
		plain := func(token string) bool {
			return send(s, "GET", "/logs", http.Header{TokenHeader: {token}}).StatusCode == http.StatusOK
		}
		m.write(map[string]string{"token": laterToken, previousFile: testToken})
		later := session(t, s, laterToken)
		if later == nil || !passes(later) || !passes(former) || !plain(laterToken) || !plain(testToken) {
			t.Fatal("during a rotation one of the two tokens is refused")
		}
		m.write(map[string]string{"token": laterToken})
		if passes(former) || plain(testToken) {
			t.Error("a token that was taken back is good")
		}
		if session(t, s, laterToken) == nil {
			t.Error("the token is refused after the rotation")
		}
		for name, entries := range map[string]map[string]string{
			"gone": {}, "empty": {"token": ""}, "short": {"token": "x"}, "of spaces": {"token": strings.Repeat(" ", 40)},
		} {
			m.write(entries)
			if !passes(later) || !plain(laterToken) {
				t.Errorf("while the file is %s, the token that was in it is refused", name)
			}
		}
		m.write(map[string]string{"token": editedToken})
		if session(t, s, editedToken) == nil {
			t.Error("an edited token is not taken at once")
		}
		if passes(later) || plain(laterToken) {
			t.Error("the token before an edit is good")
		}
		read := s.guard.tokens.read
		time.Sleep(tokenAge / 2)
		if plain(editedToken); !s.guard.tokens.read.Equal(read) {
			t.Error("files that have not changed are read for each request")
		}
		time.Sleep(tokenAge / 2)
		if plain(editedToken); s.guard.tokens.read.Equal(read) {
			t.Error("files are not read again where a change may not be seen")
		}
	})
}
