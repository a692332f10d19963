// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

// disk is an audit log that can be slow, or full in the middle of a line.
type disk struct {
	mu      sync.Mutex
	written bytes.Buffer
	room    int           // bytes until it is full; negative for no limit
	hold    chan struct{} // received from before each write, if set
	began   chan struct{} // sent to when a write begins, if set
}

var errFull = errors.New("no space left")

func (d *disk) Write(p []byte) (int, error) {
	if d.began != nil {
		d.began <- struct{}{}
	}
	if d.hold != nil {
		<-d.hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room >= 0 && len(p) > d.room {
		n, _ := d.written.Write(p[:d.room])
		d.room = 0
		return n, errFull
	}
	d.written.Write(p)
	if d.room > 0 {
		d.room -= len(p)
	}
	return len(p), nil
}

func (*disk) Close() error { return nil }

func (d *disk) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written.String()
}

func newTestWriter(out io.WriteCloser) (*auditWriter, *buffer) {
	logs := &buffer{}
	return newAuditWriter(out, NewMetrics("test"), slog.New(slog.NewTextHandler(logs, nil))), logs
}

// counted is the value of a counter.
func counted(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return -1
	}
	return m.GetCounter().GetValue()
}

func TestAFullQueueDropsLinesAndTheNextLineSaysHowMany(t *testing.T) {
	d := &disk{room: -1, hold: make(chan struct{}), began: make(chan struct{})}
	w, _ := newTestWriter(d)
	go w.run()
	w.add([]byte(`{"first":1`))
	<-d.began // the disk holds the writer now; all else waits in the queue
	d.began = nil
	line := []byte(`{"line":"` + strings.Repeat("x", 1<<20) + `"`)
	const lines = 10
	for range lines {
		w.add(line)
	}
	kept := auditQueueBytes / len(line)
	if got := counted(w.metrics.auditDropped.Get(droppedQueue)); got != float64(lines-kept) {
		t.Errorf("%v lines were dropped, want %d", got, lines-kept)
	}
	if len(w.pending) > auditQueueBytes {
		t.Errorf("%d bytes wait", len(w.pending))
	}
	close(d.hold)
	within(t, "what waited is written", func() bool { return strings.Count(d.String(), "\n") == 1+kept })
	w.add([]byte(`{"last":1`))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if want := `{"last":1,"dropped":7}` + "\n"; !strings.HasSuffix(d.String(), "}\n"+want) {
		t.Errorf("the last line is not %s", want)
	}
	w.add([]byte(`{"late":1`)) // after the end: counted, and no panic
	if strings.Contains(d.String(), "late") {
		t.Error("a line was written after the end")
	}
}

func TestADiskThatWasFullCostsNoLineButThoseThatDidNotFit(t *testing.T) {
	d := &disk{room: 25}
	w, logs := newTestWriter(d)
	go w.run()
	w.add([]byte(`{"fits":1`))
	within(t, "it is written", func() bool { return d.String() == `{"fits":1}`+"\n" })
	w.add([]byte(`{"does not fit":"and is torn"`))
	dropped := w.metrics.auditDropped.Get(droppedError)
	within(t, "it is lost", func() bool { return counted(dropped) == 1 })
	d.mu.Lock()
	d.room = -1
	d.mu.Unlock()
	w.add([]byte(`{"after":1`))
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	var whole []string
	for line := range strings.Lines(d.String()) {
		if json.Valid([]byte(line)) {
			whole = append(whole, strings.TrimSpace(line))
		}
	}
	if len(whole) != 2 || whole[1] != `{"after":1,"dropped":1}` {
		t.Errorf("the log is %q", d.String())
	}
	if got := logs.String(); strings.Count(got, "cannot be written") != 1 || strings.Count(got, "written again") != 1 {
		t.Errorf("the operator was told %q", got)
	}
}

func TestTheEndDoesNotWaitForADiskForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1, hold: make(chan struct{})}
		w, _ := newTestWriter(d)
		go w.run()
		w.add([]byte(`{"a":1`))
		if err := w.close(); !errors.Is(err, errNotFlushed) {
			t.Errorf("got %v", err)
		}
		close(d.hold)
		<-w.done
	})
}

func TestFilesArePutAwayWhenTheyAreFullAndNoLineIsLost(t *testing.T) {
	dir := t.TempDir()
	out, err := openAuditLog(Options{AuditLog: filepath.Join(dir, "audit.log"), AuditLogMaxSize: 1, AuditLogMaxBackups: 3})
	if err != nil {
		t.Fatal(err)
	}
	w, _ := newTestWriter(out)
	go w.run()
	const lines = 2500 // of 1 KiB: two files and a half
	for i := range lines {
		w.add([]byte(`{"line":"` + strings.Repeat("x", 1000) + `"`))
		if i%500 == 0 {
			within(t, "the writer keeps up", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.pending) == 0 })
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "audit*.log"))
	if err != nil || len(files) != 3 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	var got int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 1<<20 || data[len(data)-1] != '\n' {
			t.Errorf("%s has %d bytes and ends in %q", file, len(data), data[len(data)-1])
		}
		got += bytes.Count(data, []byte("\n"))
	}
	if got != lines {
		t.Errorf("%d lines of %d were kept", got, lines)
	}
}

func TestManyGroupsAreCountedAndNotAllWritten(t *testing.T) {
	user := authenticationv1.UserInfo{Username: strings.Repeat("ü", 4000)}
	for range 5000 {
		user.Groups = append(user.Groups, strings.Repeat("g", 4000))
	}
	var line struct {
		Name          string
		Groups        []string
		GroupsOmitted int
	}
	b := append(newAuditUser(user).json, '}')
	if err := json.Unmarshal(b, &line); err != nil {
		t.Fatal(err)
	}
	if len(line.Groups) != maxAuditGroups || line.GroupsOmitted != 5000-maxAuditGroups || len(line.Name) > maxAuditName || len(b) > 128<<10 {
		t.Errorf("%d groups, %d omitted, %d bytes", len(line.Groups), line.GroupsOmitted, len(b))
	}
}

// Whatever names identity providers give, and whatever strings get into a said, a line is one
// line and one JSON object that says the same.
func FuzzAuditLine(f *testing.F) {
	f.Add("alice", "devs", "demo")
	f.Add("a\"b", "c\\d", "e\"f")
	f.Add("al\"ice\\", "a\nb", "de\u2028mo")
	f.Add("}\n{\"schema\":\"audit.sandbar.dev/v1\"", "\x00\x1b[2J", "\xff\xfe")
	f.Fuzz(func(t *testing.T, user, group, name string) {
		said := auditRecord{stage: StageEnd, route: locate.Route{Workspace: name, Name: name}, objectIsKnown: true, reason: name}
		line := append(said.appendTo(nil, newAuditUser(authenticationv1.UserInfo{Username: user, Groups: []string{group}})), '}')
		if bytes.ContainsAny(line, "\n\r\x00\x1b") {
			t.Fatalf("more than a line: %q", line)
		}
		var got AuditLine
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&got); err != nil || decoder.More() {
			t.Fatalf("%v: %q", err, line)
		}
		if utf8.ValidString(user) && len(user) <= maxAuditName && got.User.Name != user || utf8.ValidString(name) && got.Workspace != name {
			t.Fatalf("%q and %q became %q", user, name, line)
		}
	})
}

// BenchmarkAuditLine is what a request pays for its line: everything but the writing.
func BenchmarkAuditLine(b *testing.B) {
	opts := Options{AuditLog: "test", AuditOut: &disk{room: -1}, Logger: slog.New(slog.DiscardHandler)}
	names, err := newNames(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	a, err := NewAuditor(opts, nil, NewMetrics("test"))
	if err != nil {
		b.Fatal(err)
	}
	a.writer.out, a.Names = discardCloser{}, names
	go a.Run()
	o := &Outcome{
		Request: aRequest(), Caller: tenant.Bearer(strings.Repeat("t", 900)), Code: http.StatusOK, Took: time.Millisecond,
		Route: locate.Route{
			Workspace: "root:acme:dev", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners",
			Namespace: "default", Name: "demo", Verb: "sync",
		},
		Owner: placement.Owner{Cluster: "2f8k1c0q7x9z", UID: "6f1c0a52-6a4e-4a8b-9d0a-9f3f0d6c2b11"},
	}
	user := newAuditUser(authenticationv1.UserInfo{Username: "alice", UID: "u-1", Groups: []string{"devs", "system:authenticated"}})
	names.known.Add(o.Caller.CredentialKey(), knownName{user: user, expires: time.Now().Add(time.Hour)})
	b.ReportAllocs()
	for b.Loop() {
		o.AuditID = a.Begin()
		a.Ended(o)
	}
	b.StopTimer()
	if err := a.Close(); err != nil {
		b.Fatal(err)
	}
}

type discardCloser struct{}

func (discardCloser) Write(p []byte) (int, error) { return len(p), nil }
func (discardCloser) Close() error                { return nil }
