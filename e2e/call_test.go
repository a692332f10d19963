// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// caller calls the data plane as somebody.
type caller struct {
	t      *testing.T
	url    string // of the data plane
	token  string // "" for nobody
	client *http.Client
}

func callAs(t *testing.T, token string) *caller {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: world.CA, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 30 * time.Second,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, url: world.URL, token: token, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// on is the same caller in a subtest, so that a failure there ends that subtest only.
func (c *caller) on(t *testing.T) *caller {
	return &caller{t: t, url: c.url, token: c.token, client: c.client}
}

// base is the path of the instance's verbs in the plain form, addressed by workspace path.
func (i *instance) base() string {
	return "/dataplane/clusters/" + i.tn.path + "/" + i.gvr.Resource + "/" + i.name
}

// open sends a request and returns the response with its body open.
func (c *caller) open(ctx context.Context, method, path string, body []byte) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	c.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// do sends a request and returns the code and the whole body.
func (c *caller) do(method, path string, body []byte) (int, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 90*time.Second)
	defer cancel()
	resp := c.open(ctx, method, path, body)
	data, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		c.t.Fatalf("%s %s: reading the answer: %v", method, path, err)
	}
	return resp.StatusCode, string(data)
}

// want sends a request and fails unless the code is the expected one.
func (c *caller) want(code int, method, path string, body []byte) string {
	c.t.Helper()
	got, data := c.do(method, path, body)
	if got != code {
		c.t.Fatalf("%s %s: code %d, want %d: %s", method, path, got, code, data)
	}
	return data
}

// wantStatus is want for a refusal, which must be a metav1.Status with that code.
func (c *caller) wantStatus(code int, method, path string, body []byte) metav1.Status {
	c.t.Helper()
	data := c.want(code, method, path, body)
	var status metav1.Status
	if err := json.Unmarshal([]byte(data), &status); err != nil || status.Kind != "Status" || int(status.Code) != code || status.Message == "" {
		c.t.Fatalf("%s %s: not a metav1.Status with code %d: %s", method, path, code, data)
	}
	return status
}

// syncBody is a /sync request that writes files and restarts the process.
func syncBody(t *testing.T, files map[string]string) []byte {
	t.Helper()
	type file struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	body := struct {
		Files   []file `json:"files"`
		Restart string `json:"restart"`
	}{Restart: "auto"}
	for path, content := range files {
		body.Files = append(body.Files, file{path, content})
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// project reads the sample project.
func project(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join("..", "examples", "web")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.Contains(path, "node_modules") {
			return nil
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatalf("reading the sample project: %v", err)
	}
	return files
}

// deploy pushes the sample project with a message and waits until the app answers with it.
func (i *instance) deploy(c *caller, message string) {
	c.t.Helper()
	files := project(c.t)
	files["message.txt"] = message + "\n"
	c.want(http.StatusOK, http.MethodPost, i.base()+"/sync", syncBody(c.t, files))
	i.waitAnswer(c, message)
}

func (i *instance) waitAnswer(c *caller, message string) {
	c.t.Helper()
	eventually(c.t, "the app says "+message, func() error {
		code, body := c.do(http.MethodGet, i.base()+"/proxy/version", nil)
		if code != http.StatusOK || !strings.Contains(body, message) {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
}

// follow opens the log as a stream and returns its lines.
func (i *instance) follow(ctx context.Context, c *caller) <-chan string {
	c.t.Helper()
	resp := c.open(ctx, http.MethodGet, i.base()+"/log?follow=true&tail=0", nil)
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		c.t.Fatalf("following the log: code %d: %s", resp.StatusCode, data)
	}
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(resp.Body)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// waitLine waits for a line that contains text.
func waitLine(t *testing.T, lines <-chan string, text string) string {
	t.Helper()
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the log ended before a line with %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout.C:
			t.Fatalf("no log line with %q within a minute", text)
		}
	}
}

// probe is do for other goroutines than the test's: it returns the body of a 200, else an error.
func (c *caller) probe(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("code %d: %s", resp.StatusCode, data)
	}
	return string(data), err
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
