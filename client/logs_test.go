// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/client"
)

// runnerLog serves records as a runner does. Before an answer it asks cut how many bytes of it
// may pass; -1 is all.
type runnerLog struct {
	id      string
	records []logwire.Record
	cut     func(request int) int
	queries []string
}

func (l *runnerLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.queries = append(l.queries, r.URL.RawQuery)
	offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	if offset > l.records[len(l.records)-1].Next() {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		_, _ = io.WriteString(w, `{"code":"OffsetOutOfRange","message":"no"}`)
		return
	}
	var body []byte
	for _, record := range l.records {
		if record.Next() > offset || record.Lost > 0 && record.Offset > offset {
			line, _ := json.Marshal(record)
			body = append(append(body, line...), '\n')
		}
	}
	w.Header().Set("Content-Type", logwire.ContentType)
	w.Header().Set(logwire.IDHeader, l.id)
	w.Header().Set(logwire.OffsetHeader, strconv.FormatInt(offset, 10))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	n := len(body)
	if l.cut != nil {
		if at := l.cut(len(l.queries)); at >= 0 {
			n = min(at, n)
		}
	}
	_, _ = w.Write(body[:n]) // less than announced: the client sees a broken connection
}

func linesOf(texts ...string) (records []logwire.Record) {
	offset := int64(0)
	for _, text := range texts {
		r := logwire.Record{Offset: offset, Time: time.Unix(1, 0).UTC(), Stream: "stdout", Attempt: 1, Data: []byte(text)}
		records, offset = append(records, r), r.Next()
	}
	return records
}

func TestALogThatIsCutAnywhereComesWholeAndOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var texts []string
	for n := range 40 {
		texts = append(texts, strings.Repeat(strconv.Itoa(n%10), random.IntN(30))+"\n")
	}
	log := &runnerLog{id: "a", records: linesOf(texts...), cut: func(request int) int {
		if request > 12 {
			return -1
		}
		return random.IntN(600)
	}}
	i, err := newWorld(t, log.ServeHTTP).instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	lost := 0
	for e, err := range i.Logs(t.Context(), client.LogOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		got.Write(e.Record.Data)
		if e.Type == client.LogDisconnected {
			lost++
		}
	}
	if diff := cmp.Diff(strings.Join(texts, ""), got.String()); diff != "" {
		t.Errorf("the log is not whole (-want +got):\n%s", diff)
	}
	if lost == 0 {
		t.Error("no connection was lost, so nothing was tried")
	}
}

func TestALogOfAnotherRunnerBeginsAnewAndSaysSo(t *testing.T) {
	for name, second := range map[string][]string{
		"whose log is longer already": {"four\n", "five\n", "six\n", "seven\n"},
		"whose log is shorter":        {"four\n"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &runnerLog{id: "a", records: linesOf("one\n", "two\n", "three\n")}
			log.cut = func(request int) int {
				if request > 1 {
					return -1
				}
				line, _ := json.Marshal(log.records[0])
				return 2*len(line) + 2 // two records
			}
			i, err := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
				if len(log.queries) == 1 {
					log.id, log.records = "b", linesOf(second...)
				}
				log.ServeHTTP(w, r)
			}).instance(t, "web")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for e, err := range i.Logs(t.Context(), client.LogOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(e.Type)+string(e.Record.Data))
			}
			text := strings.Join(got, "|")
			want := "outputone\n|outputtwo\n|disconnected|replaced|connected|output" + strings.Join(second, "|output")
			if text = strings.TrimPrefix(text, "connected|"); text != want {
				t.Errorf("got %q\nwant %q", text, want)
			}
		})
	}
}

// A follow from the end, cut before a line came, must not begin at the end again.
func TestAFollowFromTheEndLosesNothingToAnEarlyCut(t *testing.T) {
	log := &runnerLog{id: "a", records: linesOf("old\n", "new\n")}
	i, err := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
		if len(log.queries) == 0 { // from the end, which is behind the first line
			r.URL.RawQuery = "offset=4"
		}
		log.ServeHTTP(w, r)
	}).instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	none := 0
	log.cut = func(request int) int {
		if request == 1 {
			return 0
		}
		return -1
	}
	for e, err := range i.Logs(t.Context(), client.LogOptions{Tail: &none}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == client.LogOutput && string(e.Record.Data) != "new\n" {
			t.Errorf("got %q", e.Record.Data)
		}
	}
	if log.queries[1] != "format=json&offset=4" {
		t.Errorf("the second question was %q", log.queries[1])
	}
}

func TestALogThatIsRefusedEnds(t *testing.T) {
	for code, want := range map[int]int{403: 1, 404: 1, 409: 1, 503: 1} {
		requests := 0
		i, err := newWorld(t, func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","reason":"Because","message":"no","code":%d}`, code)
		}).instance(t, "web")
		if err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range i.Logs(t.Context(), client.LogOptions{Follow: true}) {
			last = err
		}
		if last == nil || requests != want {
			t.Errorf("%d: %d requests and the error %v", code, requests, last)
		}
	}
}

func TestALogWithoutOffsetsIsNotResumed(t *testing.T) {
	i, err := newWorld(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "one\ntw")
	}).instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var last error
	for e, err := range i.Logs(t.Context(), client.LogOptions{}) {
		got.Write(e.Record.Data)
		last = err
	}
	if got.String() != "one\ntw" || last == nil || !strings.Contains(last.Error(), client.ErrLogCut.Error()) {
		t.Errorf("got %q and %v", got.String(), last)
	}
}
