// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// limit bounds one measurement.
const limit = 2 * time.Minute

// podLogLines is 8 MB: the kubelet rotates a log of 10 MiB, and whoever follows it then may wait for
// ever for what is in the next file.
const podLogLines = 40_000

// way is one way to follow the app's output. follow calls took with each piece of it until that
// returns false; it calls it with nothing when it is connected.
type way struct {
	name   string
	app    string // address of the bench/pod that writes
	most   int    // lines that it can write at once, if not any number
	follow func(ctx context.Context, took func(piece []byte) bool) error
}

// newWays are Sandbar's client, its text through the data plane and straight at the runner, and
// the log of a pod that has no runner.
func newWays(ctx context.Context, s *stage.Stage, person *stage.Person, kube kubernetes.Interface, bare *barePod) ([]way, error) {
	control, token, err := controlOf(ctx, s, kube)
	if err != nil {
		return nil, err
	}
	none, only := 0, int64(0)
	query := url.Values{"follow": {"true"}, "tail": {"0"}}
	return []way{
		{name: "sandbar", app: s.Pod, follow: func(ctx context.Context, took func([]byte) bool) error {
			for e, err := range person.Instance.Logs(ctx, client.LogOptions{Follow: true, Tail: &none}) {
				if err != nil {
					return err
				}
				if (e.Type == client.LogOutput || e.Type == client.LogConnected) && !took(e.Record.Data) {
					return nil
				}
			}
			return io.ErrUnexpectedEOF
		}},
		{name: "text", app: s.Pod, follow: func(ctx context.Context, took func([]byte) bool) error {
			res, err := person.Instance.Do(ctx, client.Request{Verb: "log", Query: query}) //nolint:bodyclose // pieces closes it
			if err != nil {
				return err
			}
			return pieces(res.Body, took)
		}},
		{name: "runner", app: s.Pod, follow: func(ctx context.Context, took func([]byte) bool) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+control+"/logs?"+query.Encode(), http.NoBody)
			if err != nil {
				return err
			}
			req.Header.Set("X-Sandbox-Control-Token", token)
			res, err := stage.Straight.Do(req) //nolint:bodyclose // pieces closes it
			if err != nil {
				return err
			}
			return pieces(res.Body, took)
		}},
		{name: "pod_log", app: bare.address, most: podLogLines, follow: func(ctx context.Context, took func([]byte) bool) error {
			body, err := kube.CoreV1().Pods(bare.namespace).GetLogs(bare.name, &corev1.PodLogOptions{Follow: true, TailLines: &only}).Stream(ctx)
			if err != nil {
				return err
			}
			return pieces(body, took)
		}},
	}, nil
}

// pieces reads whole lines, as many at once as there are.
func pieces(body io.ReadCloser, took func([]byte) bool) error {
	defer body.Close()
	if !took(nil) {
		return nil
	}
	buf := make([]byte, 256<<10)
	for held := 0; ; {
		n, err := body.Read(buf[held:])
		held += n
		whole := bytes.LastIndexByte(buf[:held], '\n') + 1
		if whole > 0 && !took(buf[:whole]) {
			return nil
		}
		held = copy(buf, buf[whole:held])
		if err != nil {
			return err
		}
	}
}

// controlOf is the address of the runner's control port and its token, which nobody but the data
// plane and the runtime cluster's administrator can read.
func controlOf(ctx context.Context, s *stage.Stage, kube kubernetes.Interface) (address, token string, err error) {
	secrets, err := kube.CoreV1().Secrets(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", "", fmt.Errorf("reading the control token: %w", err)
	}
	for _, secret := range secrets.Items {
		if text, ok := secret.Data["token"]; ok {
			token = string(text)
		}
	}
	host, _, ok := strings.Cut(s.Pod, ":")
	if token == "" || !ok {
		return "", "", errors.New("finding the runner's control port: there is no token or no pod")
	}
	const control = "7070"
	return host + ":" + control, token, nil
}

// following runs a way beside what makes the app write.
func (w *way) following(ctx context.Context, took func([]byte) bool, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	connected, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		ended <- w.follow(ctx, func(piece []byte) bool {
			if first {
				close(connected)
				first = false
			}
			return len(piece) == 0 || took(piece)
		})
	}()
	select {
	case <-connected:
	case err := <-ended:
		return fmt.Errorf("following: %w", errors.Join(err, io.EOF))
	}
	if err := write(ctx); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("following: %w", err)
	}
	return nil
}

// latency has the app write lines with the time in them. Both clocks are this machine's.
func (w *way) latency(ctx context.Context, n int) (late []float64, err error) {
	err = w.following(ctx, func(piece []byte) bool {
		now := time.Now()
		for line := range strings.Lines(string(piece)) {
			fields := strings.Fields(line)
			if len(fields) != 3 {
				continue
			}
			wrote, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				continue
			}
			late = append(late, float64(now.UnixNano()-wrote)/1e6)
		}
		return len(late) < n
	}, func(ctx context.Context) error {
		// Following a pod's log begins a moment after it has answered.
		if err := pause.For(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		return stage.TellAt(ctx, w.app, fmt.Sprintf("/lines/%d?every=10ms", n))
	})
	return late, err
}

// throughput has the app write as fast as it can. The rate, in megabytes per second, is what the
// follower got from its first byte to the last line; part is the part of all that this is. The log
// is bounded, so a follower that is slower than the app is told of gaps.
func (w *way) throughput(ctx context.Context, lines int) (rate, part float64, err error) {
	const lineBytes = 200
	if w.most > 0 {
		lines = min(lines, w.most)
	}
	received := 0
	var began, ended time.Time
	last := fmt.Appendf(nil, "line %-13d", lines-1)
	err = w.following(ctx, func(piece []byte) bool {
		if began.IsZero() {
			began = time.Now()
		}
		received += len(piece)
		ended = time.Now()
		return !bytes.Contains(piece[max(0, len(piece)-2*lineBytes):], last)
	}, func(ctx context.Context) error {
		if err := pause.For(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		return stage.TellAt(ctx, w.app, fmt.Sprintf("/flood/%d?from=0", lines))
	})
	return float64(received) / 1e6 / ended.Sub(began).Seconds(), float64(received) / float64(lines*lineBytes), err
}

// number is that of a line of the flood.
func number(line []byte) (int, bool) {
	rest, ok := bytes.CutPrefix(line, []byte("line "))
	if !ok {
		return 0, false
	}
	digits, _, _ := bytes.Cut(rest, []byte(" "))
	n, err := strconv.Atoi(string(digits))
	return n, err == nil
}

// eachLine takes a piece apart.
func eachLine(piece []byte, do func([]byte)) {
	for in := bufio.NewScanner(bytes.NewReader(piece)); in.Scan(); {
		do(in.Bytes())
	}
}
