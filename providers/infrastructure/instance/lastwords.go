// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/keptlog"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

const (
	// wordsLines and wordsBytes bound what is read of a container's log for its last words: an app's
	// output stands between what the runner says of its ends. logTimeout is how long that may take: the
	// kubelet is asked, and may not answer.
	wordsLines = 200
	wordsBytes = 32 << 10
	logTimeout = 5 * time.Second

	// wordsFirst and wordsMost bound how often the last words of an instance that goes on failing are
	// read again: after as long as it has failed, and when a container has ended once more, which the
	// kubelet's pauses between two starts bound.
	wordsFirst = 30 * time.Second
	wordsMost  = 5 * time.Minute

	// wordsQuoted is how many lines of a container's own log are quoted.
	wordsQuoted = 3
)

// logEnd is how much of the end of a log is read: so many lines, and of these so many bytes.
type logEnd struct {
	lines, bytes int
	timestamps   bool
}

// podLogs reads the end of a container's log.
type podLogs func(ctx context.Context, namespace string, from outcome.Speaker, want logEnd) ([]byte, error)

// logsOf reads logs from the API server.
func logsOf(config *rest.Config) (podLogs, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, namespace string, from outcome.Speaker, want logEnd) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, logTimeout)
		defer cancel()
		// LimitBytes would cut off the end, and the end is wanted.
		stream, err := client.CoreV1().Pods(namespace).GetLogs(from.Pod, &corev1.PodLogOptions{
			Container: from.Container, Previous: from.Previous, TailLines: new(int64(want.lines)), Timestamps: want.timestamps,
		}).Stream(ctx)
		if err != nil {
			return nil, err
		}
		defer stream.Close()
		end := lastBytes{most: want.bytes}
		_, err = io.Copy(&end, stream)
		return end.lines(), err
	}, nil
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	most int
	data []byte
	cut  bool
}

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.data = append(l.data, p...)
	if over := len(l.data) - l.most; over > l.most { // rarely: each time costs a copy
		l.data, l.cut = append(l.data[:0], l.data[over:]...), true
	}
	return len(p), nil
}

// lines returns the last whole lines. A line that is longer alone is cut at its beginning.
func (l *lastBytes) lines() []byte {
	if over := len(l.data) - l.most; over > 0 {
		l.data, l.cut = l.data[over:], true
	}
	if first := bytes.IndexByte(l.data, '\n') + 1; l.cut && first > 0 && first < len(l.data) {
		return l.data[first:]
	}
	return l.data
}

// spoken is what an instance's failing container said last, and when it was read.
type spoken struct {
	from outcome.Speaker
	at   time.Time
	text string
	// ofApp tells that the text is a runner's, about the app that it starts.
	ofApp bool
}

// observeLastWords returns the cause with the last lines of a container that does not stay up, and
// after which time to read them again. They are read rarely, and other words of which only numbers
// differ are the same: a status is not written for each round of a crash loop.
func (r *reconciler) observeLastWords(ctx context.Context, s *scope.Scope, c *outcome.Cause, now time.Time) (*outcome.Cause, time.Duration) {
	if c == nil || c.Says == nil {
		r.words.Remove(s.Placement().Owner.UID)
		return c, 0
	}
	again := min(max(now.Sub(falseSince(s, "Ready", now)), wordsFirst), wordsMost)
	said, known := r.words.Get(s.Placement().Owner.UID)
	if !known || said.from != *c.Says || now.Sub(said.at) >= again {
		data, err := r.runtime.logs(ctx, s.Placement().Namespace(), *c.Says, logEnd{lines: wordsLines, bytes: wordsBytes})
		if err != nil {
			// The message goes without; its log may be there later.
			log.FromContext(ctx).V(1).Info("could not read the log of a container that fails", "cause", err.Error())
		}
		if text, ofApp := lastWords(data); !sameButForNumbers(text, said.text) {
			said.text, said.ofApp = text, ofApp
		}
		said.from, said.at = *c.Says, now
		r.words.Add(s.Placement().Owner.UID, said)
	}
	if said.text == "" {
		return c, again
	}
	quoted := *c
	if said.ofApp {
		quoted = c.OfApp()
	}
	quoted.Message += ". " + sandbarv1alpha1.LastWordsMark + said.text
	return &quoted, again
}

// runnerEnded is what the runner logs when the app has ended (runner/supervise).
const runnerEnded = "the app ended"

// lastWords finds what to quote in the end of a container's log: what the runner says of its app (ofApp), or the
// last lines as they are.
func lastWords(data []byte) (text string, ofApp bool) {
	var lines []string
	ended, ofRunner := "", hasLineOfRunner(data)
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		var entry struct {
			Message   string   `json:"msg"`
			Explained string   `json:"explained"`
			LastLines []string `json:"lastLines"`
		}
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &entry) == nil && entry.Message != "":
			// The attack: an app writes what the runner would say of it. A runner that does not name itself
			// is an older one, whose app does not write here.
			if entry.Message == runnerEnded && entry.Explained != "" && keptlog.FromRunner(line) == ofRunner {
				ended = strings.Join(append([]string{entry.Explained}, entry.LastLines...), " | ")
			}
		default:
			lines = append(lines, string(line))
		}
	}
	if ended != "" || ofRunner { // the other lines are the app's, which has not ended
		return outcome.Detail(ended), ended != ""
	}
	return outcome.Detail(strings.Join(lines[max(0, len(lines)-wordsQuoted):], " | ")), false
}

// hasLineOfRunner reports whether the runner has written to a log of itself.
func hasLineOfRunner(data []byte) bool {
	for line := range bytes.Lines(data) {
		if keptlog.FromRunner(bytes.TrimSpace(line)) {
			return true
		}
	}
	return false
}

// sameButForNumbers reports whether two texts differ in digits only, as the times and process numbers of
// two rounds do.
func sameButForNumbers(a, b string) bool {
	letters := func(text string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, text)
	}
	return letters(a) == letters(b)
}
