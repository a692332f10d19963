// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

// follower reads the log as records, over as many runners as it takes, and checks
// that each line comes once, in order, or lies in a gap.
type follower struct {
	slow  bool
	at    int64
	id    string
	line  int // the last one seen
	gaps  int
	lost  int64
	fault string
}

// follow reads until the line is there. A slow one reads nothing before all is
// written.
func (f *follower) follow(url string, last int, written <-chan struct{}) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		f.fault = err.Error()
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(lateAfter))
	_, _ = fmt.Fprintf(conn, "GET /logs?follow&format=json&stream=stdout&offset=%d&log=%s HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n",
		f.at, f.id, TokenHeader, testToken)
	if f.slow {
		<-written
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusOK {
		f.fault = fmt.Sprintf("the answer is %v, %v", response, err)
		return
	}
	if id := response.Header.Get(logwire.IDHeader); f.id != "" && id != f.id {
		f.fault = "the log has another name"
		return
	}
	f.id = response.Header.Get(logwire.IDHeader)
	for d := json.NewDecoder(response.Body); f.line != last; {
		var r logwire.Record
		if err := d.Decode(&r); err != nil {
			f.fault = fmt.Sprintf("at offset %d, behind %d gaps of %d bytes: %v", f.at, f.gaps, f.lost, err)
			return
		}
		if r.Lost > 0 {
			f.gaps++
			f.lost += r.Lost
		}
		var line int
		if number, ok := strings.CutPrefix(string(r.Data), "line "); ok {
			line, _ = strconv.Atoi(strings.TrimSpace(number))
			if line <= f.line || line > f.line+1 && r.Lost == 0 && f.gaps == 0 {
				f.fault = fmt.Sprintf("line %d comes after line %d", line, f.line)
				return
			}
			if line > f.line+1 {
				f.gaps-- // explained
			}
			f.line = line
		}
		f.at = r.Next()
	}
}

// The app writes far more than the log holds, twice, with a new runner in between;
// a hundred followers resume, ten of them too slowly.
func TestAHundredFollowersHaveEveryByteOnceOrAGapAcrossARunnersRestart(t *testing.T) {
	const followers, lines = 100, 800
	app := fmt.Sprintf(`n=$(cat next 2>/dev/null || echo 1); while [ ! -e go-$n ]; do sleep 0.02; done
echo $((n + %d)) > next
awk -v n=$n 'BEGIN { for (i = n; i < n + %d; i++) printf "line %%d\n%%999s\n", i, "" }'
exec sleep 1000`, lines, lines)
	small := func(c *Config) { c.LogBytes = ringlog.MinCapacity }
	s := startSandbox(t, app, small)
	all := make([]*follower, followers)
	for i := range all {
		all[i] = &follower{slow: i%10 == 0}
	}
	var dir string
	for run := range 2 {
		var reading, slow sync.WaitGroup
		written := make(chan struct{})
		for _, f := range all {
			group := &reading
			if f.slow {
				group = &slow
			}
			group.Go(func() { f.follow(s.url, (run+1)*lines, written) })
		}
		callJSON[syncwire.Reply](s, "POST", "/sync", fmt.Sprintf(`{"files":[{"path":"go-%d"}]}`, run*lines+1), 200)
		reading.Wait()
		close(written)
		slow.Wait()
		if dir = s.dir; run == 0 {
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			s = startSandbox(t, app, func(c *Config) { small(c); c.Workdir = dir })
		}
	}
	var gaps int
	for i, f := range all {
		if f.fault != "" || f.line != 2*lines {
			t.Errorf("follower %d ended at line %d: %s", i, f.line, f.fault)
		}
		if f.lost > 0 {
			gaps++
		}
	}
	t.Logf("%d of %d followers had gaps", gaps, followers)
}
