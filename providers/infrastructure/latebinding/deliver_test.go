// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latebinding

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/runner"
)

const (
	token = "correct-horse-battery-staple"
	value = "a value that nobody is told"
)

// startRunner runs a runner whose command writes a variable to a file each time that it starts.
func startRunner(t *testing.T) (address, out string) {
	t.Helper()
	dir := t.TempDir()
	out = filepath.Join(dir, "out")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	listener.Close()
	config, err := runner.Supervising([]string{
		"PATH=" + os.Getenv("PATH"), "SANDBAR_CONTROL_TOKEN=" + token, "SANDBAR_POD_UID=pod-1",
		"SANDBAR_WORKDIR=" + filepath.Join(dir, "work"), "SANDBAR_CONTROL_ADDR=" + address,
	}, []string{"/bin/sh", "-c", `echo "got:$LATE" >> ` + out + `; exec sleep 1000`}, dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx, config, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the runner ended with %v", err)
		}
	})
	if err := runner.WaitHealthy(t.Context(), "http://"+address+"/healthz"); err != nil {
		t.Fatal(err)
	}
	return address, out
}

// apiServer passes what is for the runner's port of the pod on, as the API server does.
func apiServer(t *testing.T, to string) (*Deliverer, *[]string) {
	t.Helper()
	var asked []string
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: to})
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/api/v1/namespaces/sb-x/pods/sandbox-0:7070/proxy")
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	d, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return d, &asked
}

func podOf() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sb-x", Name: "sandbox-0", UID: "pod-1"}}
}

func control(of string) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{placement.ControlTokenKey: []byte(of)}}
}

// starts waits until the command has been started so often, and returns what it has written.
func starts(t *testing.T, out string, n int) []string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(out)
		if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) >= n && text != nil {
			return lines
		}
		if time.Now().After(end) {
			t.Fatalf("the command has written %q", text)
		}
	}
}

// With a real runner: its command is started again with the variables, and not for the same ones once more.
func TestARunningCommandGetsVariables(t *testing.T) {
	address, out := startRunner(t)
	starts(t, out, 1)
	d, asked := apiServer(t, address)
	for range 2 {
		if err := d.Deliver(t.Context(), podOf(), control(token), map[string][]byte{"LATE": []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	if lines := starts(t, out, 2); len(lines) != 2 || lines[0] != "got:" || lines[1] != "got:"+value {
		t.Errorf("the command was started with %q", lines)
	}
	if want := "GET /api/v1/namespaces/sb-x/pods/sandbox-0:7070/proxy/challenge"; (*asked)[0] != want || len(*asked) != 4 {
		t.Errorf("asked was for %q", *asked)
	}
	// What the runner refuses is told by its code.
	err := d.Deliver(t.Context(), podOf(), control(token), map[string][]byte{"NOT A NAME": []byte(value)})
	if err == nil || strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), "400") {
		t.Errorf("it says %v", err)
	}
}

// The attack: a pod that is not the placement's, or a program in the runner's place, is to be sent the values.
func TestAPodThatDoesNotProveItselfGetsNothing(t *testing.T) {
	address, _ := startRunner(t)
	d, asked := apiServer(t, address)
	nobody, _ := apiServer(t, "127.0.0.1:1")
	other := podOf()
	other.UID = "pod-2"
	for name, err := range map[string]error{
		"another token":   d.Deliver(t.Context(), podOf(), control("another-token-of-some-length"), map[string][]byte{"LATE": []byte(value)}),
		"another pod":     d.Deliver(t.Context(), other, control(token), map[string][]byte{"LATE": []byte(value)}),
		"no token at all": d.Deliver(t.Context(), podOf(), &corev1.Secret{}, map[string][]byte{"LATE": []byte(value)}),
		"nobody answers":  nobody.Deliver(t.Context(), podOf(), control(token), map[string][]byte{"LATE": []byte(value)}),
	} {
		if err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, request := range *asked {
		if strings.HasPrefix(request, http.MethodPost) {
			t.Errorf("it was asked %s", request)
		}
	}
}

// The provider's credential goes nowhere but to the API server.
func TestARedirectOfAPodIsNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	pod := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(pod.Close)
	d, _ := apiServer(t, strings.TrimPrefix(pod.URL, "http://"))
	if err := d.Deliver(t.Context(), podOf(), control(token), map[string][]byte{"LATE": []byte(value)}); err == nil {
		t.Error("a pod that sends elsewhere has got the variables")
	}
}
