// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestATokenPrintsAsNothing(t *testing.T) {
	var log strings.Builder
	x := struct {
		Token secretToken
		T     *credential
	}{newSecretToken("hunter2"), &credential{token: newSecretToken("hunter2")}}
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", x.Token, "all", x)
	for _, text := range []string{
		fmt.Sprint(x.Token), fmt.Sprintf("%v %+v %#v %q", x.Token, x.Token, x.Token, x.Token), fmt.Sprintf("%+v %#v", x.T, x.T), log.String(),
	} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("printed: %s", text)
		}
	}
}

func TestTokensAreRememberedForAWhile(t *testing.T) {
	d := bareDirect(t)
	secret := func(token string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: fixture.Meta(fixture.DemoID, placement.ControlSecret), Data: map[string][]byte{placement.ControlTokenKey: []byte(token)}}
	}
	for i := range 10 {
		d.tokens.changed(secret(fmt.Sprintf("token-%d", i)), secret(fmt.Sprintf("token-%d", i+1)))
	}
	_, former, err := d.tokens.of(fixture.ToControl)
	if err != nil || strings.Join(former, " ") != "token-9 token-8 token-7 token-6" {
		t.Errorf("%v, %v", former, err)
	}
	d.tokens.former[fixture.DemoID.Namespace()+"/"+placement.ControlSecret][2].until = time.Now()
	if _, former, _ := d.tokens.of(fixture.ToControl); strings.Join(former, " ") != "token-9 token-7 token-6" {
		t.Errorf("one that is too old counts: %v", former)
	}
	if err := d.cache.Secrets.GetIndexer().Add(secret("now")); err != nil {
		t.Fatal(err)
	}
	foreign := fixture.ToControl
	foreign.UID = "another-instance"
	if _, _, err := d.tokens.of(foreign); !errors.Is(err, placement.ErrForeign) {
		t.Errorf("another's Secret: %v", err)
	}
	for i := range maxRememberedAll {
		other := secret("x")
		other.Namespace = fmt.Sprintf("sb-%d", i)
		d.tokens.remember(other, nil)
	}
	if d.tokens.count > maxRememberedAll {
		t.Errorf("%d tokens are remembered", d.tokens.count)
	}
}

// FuzzChallenge: whatever a pod answers, it is no challenge, and what is read of it is bounded.
func FuzzChallenge(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
	f.Add([]byte(`HTTP/1.1 200 OK` + "\r\n\r\n" + `{"session":"AAAAAAAAAAAAAAAAAAAAAA","time":1,"keys":[{"id":"x","mac":"y"}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		near, far := net.Pipe()
		defer near.Close()
		go func() {
			_, _ = http.ReadRequest(bufio.NewReader(far))
			_, _ = far.Write(answer)
			far.Close()
		}()
		d := bareDirect(t)
		if err := d.cache.Secrets.GetIndexer().Add(&corev1.Secret{
			ObjectMeta: fixture.Meta(fixture.DemoID, placement.ControlSecret), Data: map[string][]byte{placement.ControlTokenKey: []byte(fixture.ControlToken)},
		}); err != nil {
			t.Fatal(err)
		}
		pod := fixture.Pod(fixture.DemoID, "pod-0", "127.0.0.1", 80)
		pod.Spec.Containers[0].Env = fixture.NamesItsUID()
		to := fixture.ToControl
		to.Proves = true
		if _, err := d.tokens.agree(t.Context(), to, pod, askOver(near)); err == nil {
			t.Errorf("%q was taken for a challenge", answer)
		}
	})
}
