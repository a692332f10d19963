// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

// execClient is a client of GET /exec that keeps all it gets.
type execClient struct {
	t      testing.TB
	conn   *wsconn.Conn
	out    string // stdout and, with a terminal, all
	errs   string
	id     string
	offset int64 // of the next byte
	gap    int64
	status *execwire.Status
}

func (s *sandbox) dialExec(protocol string, query url.Values) (*execClient, *http.Response, error) {
	conn, response, err := wsconn.Dial(context.Background(), s.client, must(url.Parse(s.url+"/exec?"+query.Encode())), http.Header{TokenHeader: {testToken}}, 1<<20, protocol)
	if err != nil {
		return nil, response, err
	}
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	return &execClient{t: s.t, conn: conn}, response, nil
}

func (s *sandbox) startExec(query url.Values) *execClient {
	s.t.Helper()
	c, _, err := s.dialExec(execwire.Protocol, query)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func shell1(script string, more ...string) url.Values {
	q := url.Values{"command": {"sh", "-c", script}}
	for _, name := range more {
		q.Set(name, "true")
	}
	return q
}

// read takes messages until done says so; it fails the test when the connection
// ends before.
func (c *execClient) read(done func() bool) {
	c.t.Helper()
	for !done() {
		if err := c.next(); err != nil {
			c.t.Fatalf("the connection ended with %v; output %q, errors %q", err, c.out, c.errs)
		}
	}
}

func (c *execClient) next() error {
	ctx, cancel := context.WithTimeout(context.Background(), lateAfter)
	defer cancel()
	p, err := c.conn.Read(ctx)
	if err != nil {
		return err
	}
	switch p[0] {
	case execwire.ChannelStdout:
		c.out += string(p[1:])
		c.offset += int64(len(p) - 1)
	case execwire.ChannelStderr:
		c.errs += string(p[1:])
		c.offset += int64(len(p) - 1)
	case execwire.ChannelStatus:
		c.status = &execwire.Status{}
		return json.Unmarshal(p[1:], c.status)
	case execwire.ChannelSession:
		var m execwire.Session
		if err := json.Unmarshal(p[1:], &m); err != nil {
			return err
		}
		if m.Gap == 0 {
			c.id, c.offset = m.ID, m.Offset
		}
		c.gap += m.Gap
		c.offset += m.Gap
	default:
		return fmt.Errorf("a message came on channel %d", p[0])
	}
	return nil
}

func (c *execClient) ended() bool { return c.status != nil }

func (c *execClient) send(channel byte, text string) {
	c.t.Helper()
	if err := c.conn.Write(context.Background(), append([]byte{channel}, text...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *execClient) code() string {
	if c.status == nil || c.status.Details == nil {
		return ""
	}
	return c.status.Details.Causes[0].Message
}

func TestCommands(t *testing.T) {
	s := startSandbox(t, "", nil)
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"sub/file","content":"here"}]}`, 200)
	callJSON[envReply](s, "POST", "/env", `{"set":{"GREETING":"hello"}}`, 200)
	inDir := shell1("cat file")
	inDir.Set("dir", "sub")
	for name, test := range map[string]struct {
		query          url.Values
		out, errs, end string
	}{
		"both outputs come apart":                {shell1("echo out; echo err >&2"), "out\n", "err\n", "Success"},
		"a code is told":                         {shell1("exit 7"), "", "", "7"},
		"a signal is told as shells do":          {shell1("kill -9 $$"), "", "", "137"},
		"without stdin the input is empty":       {shell1("cat; echo end"), "end\n", "", "Success"},
		"the workspace is where it runs":         {shell1("cat sub/file"), "here", "", "Success"},
		"a directory of it can be chosen":        {inDir, "here", "", "Success"},
		"it has the environment of the app":      {shell1("echo $GREETING $PORT $SANDBAR_CONTROL_TOKEN"), "hello 3000\n", "", "Success"},
		"what it leaves behind does not hold it": {shell1("sleep 1000 & echo done"), "done\n", "", "Success"},
		"no terminal unless asked":               {shell1("test -t 1 || echo none"), "none\n", "", "Success"},
		"a terminal if asked":                    {shell1("test -t 0 && echo yes; echo err >&2; echo ${TERM:+term}", "tty"), "yes\r\nerr\r\nterm\r\n", "", "Success"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, protocol := range []string{execwire.Protocol, execwire.PodProtocol} {
				c, _, err := s.dialExec(protocol, test.query)
				if err != nil {
					t.Fatal(err)
				}
				c.read(c.ended)
				end := c.code()
				if end == "" {
					end = c.status.Status
				}
				if c.out != test.out || c.errs != test.errs || end != test.end || (c.id == "") != (protocol == execwire.PodProtocol) {
					t.Errorf("%s: output %q, errors %q, end %q, ID %q; want %q, %q, %q", protocol, c.out, c.errs, end, c.id, test.out, test.errs, test.end)
				}
			}
		})
	}
}

func TestInputReachesTheCommandAndEnds(t *testing.T) {
	s := startSandbox(t, "", nil)
	c := s.startExec(shell1("cat; echo end", "stdin"))
	c.send(execwire.ChannelStdin, "a line\n")
	c.read(func() bool { return c.out == "a line\n" })
	c.send(execwire.ChannelClose, "\x00")
	c.read(c.ended)
	if c.out != "a line\nend\n" {
		t.Errorf("the output is %q", c.out)
	}
}

func TestATerminalHasASizeAndTakesKeys(t *testing.T) {
	s := startSandbox(t, "", nil)
	q := shell1(`stty size; trap 'stty size; exit 3' WINCH; trap 'echo int' INT; echo ready; while :; do sleep 0.02; done`, "tty", "stdin")
	q.Set("rows", "10")
	q.Set("columns", "20")
	c := s.startExec(q)
	c.read(func() bool { return strings.Contains(c.out, "10 20\r\nready") })
	c.send(execwire.ChannelStdin, "\x03")
	c.read(func() bool { return strings.Contains(c.out, "int\r\n") })
	c.send(execwire.ChannelResize, `{"Width":100,"Height":50}`)
	c.read(c.ended)
	if !strings.Contains(c.out, "50 100") || c.code() != "3" {
		t.Errorf("the output is %q and the code %q", c.out, c.code())
	}
}

func TestASignalReachesTheWholeGroup(t *testing.T) {
	s := startSandbox(t, "", nil)
	c := s.startExec(shell1(`trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.02; done`))
	c.read(func() bool { return c.out == "ready\n" })
	c.send(execwire.ChannelSignal, `{"signal":"SIGUSR1"}`)
	c.read(c.ended)
	if !strings.HasSuffix(c.out, "got\n") || c.code() != "5" {
		t.Errorf("the output is %q and the code %q", c.out, c.code())
	}
}

func TestAClientComesBackAndMissesNothing(t *testing.T) {
	s := startSandbox(t, "", nil)
	c := s.startExec(shell1(`for i in 1 2 3 4 5 6 7 8; do echo line $i; read x; done; exit 4`, "stdin"))
	want := ""
	for i := 1; i <= 8; i++ {
		want += fmt.Sprintf("line %d\n", i)
		c.read(func() bool { return c.out == want })
		before := c
		c = s.startExec(url.Values{"id": {before.id}, "offset": {strconv.FormatInt(before.offset, 10)}})
		c.out = before.out
		if i%2 == 0 {
			// The old connection is dead, or is cut off by the new one: either way it
			// gets nothing more.
			_ = before.conn.CloseNow()
		}
		c.send(execwire.ChannelStdin, "go\n")
	}
	c.read(c.ended)
	if c.out != want || c.code() != "4" || c.gap != 0 {
		t.Errorf("the output is %q, the code %q, the gap %d", c.out, c.code(), c.gap)
	}
	// Once more, when it is over: from the beginning, with its end.
	again := s.startExec(url.Values{"id": {c.id}, "offset": {"0"}})
	again.read(again.ended)
	if again.out != want || again.code() != "4" {
		t.Errorf("afterwards the output is %q and the code %q", again.out, again.code())
	}
}

func TestASlowClientSlowsTheCommandAndLosesNothing(t *testing.T) {
	s := startSandbox(t, "", nil)
	const size = 8 << 20
	c := s.startExec(shell1(fmt.Sprintf("head -c %d /dev/zero; echo written >&2", size)))
	c.read(func() bool { return len(c.out) > 0 })
	c.read(c.ended)
	if len(c.out) != size || c.gap != 0 || c.errs != "written\n" {
		t.Errorf("%d bytes came, with a gap of %d; want %d and none", len(c.out), c.gap, size)
	}
}

func TestWithoutAClientTheNewestOutputIsKeptAndTheGapIsTold(t *testing.T) {
	s := startSandbox(t, "", nil)
	const size = 8 << 20
	c := s.startExec(shell1(fmt.Sprintf("read x; head -c %d /dev/zero; echo end >&2; echo > finished; exec sleep 1000", size), "stdin"))
	c.read(func() bool { return c.id != "" })
	c.send(execwire.ChannelStdin, "go\n")
	_ = c.conn.Close(websocket.CloseNormalClosure, "")
	for late := time.Now().Add(lateAfter); ; {
		if _, err := os.Stat(filepath.Join(s.dir, "finished")); err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the command waits although it has no client")
		}
	}
	back := s.startExec(url.Values{"id": {c.id}, "offset": {strconv.FormatInt(c.offset, 10)}})
	back.read(func() bool { return back.offset >= size+4 }) // the outputs are two pipes, and "end" may come first
	if back.gap == 0 || back.errs != "end\n" || c.offset+back.gap+int64(len(back.out)+len(back.errs)) != size+4 {
		t.Errorf("the gap is %d, %d and %d bytes came, and the offset is %d", back.gap, len(back.out), len(back.errs), back.offset)
	}
}

func TestCommandsThatAreRefused(t *testing.T) {
	s := startSandbox(t, "", nil)
	for name, test := range map[string]struct {
		query  string
		status int
		code   string
	}{
		"no command":             {"", 400, "MalformedRequest"},
		"an empty command":       {"command=", 400, "MalformedRequest"},
		"a zero byte":            {"command=a%00b", 400, "MalformedRequest"},
		"an unknown program":     {"command=does-not-exist", 400, "CommandNotStarted"},
		"a directory as program": {"command=/tmp", 400, "CommandNotStarted"},
		"a directory outside":    {"command=ls&dir=../..", 400, "InvalidPath"},
		"a size that is none":    {"command=ls&tty&rows=-1", 400, "MalformedRequest"},
		"an ID without offset":   {"id=x", 400, "MalformedRequest"},
		"an unknown ID":          {"id=x&offset=0", 404, "CommandNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := url.ParseQuery(test.query)
			if err != nil {
				t.Fatal(err)
			}
			_, response, err := s.dialExec(execwire.Protocol, q)
			if err == nil {
				t.Fatal("it was taken")
			}
			var e apiError
			if json.NewDecoder(response.Body).Decode(&e) != nil || response.StatusCode != test.status || e.Code != test.code {
				t.Errorf("the answer is %d %+v, want %d %s", response.StatusCode, e, test.status, test.code)
			}
		})
	}
	if e := callJSON[apiError](s, "GET", "/exec?command=ls", "", http.StatusUpgradeRequired); e.Code != "UpgradeRequired" {
		t.Errorf("without an upgrade the code is %s", e.Code)
	}
}

func TestAMessageThatMakesNoSenseEndsTheConnectionAndNotTheCommand(t *testing.T) {
	for name, send := range map[string]string{
		"a channel of the runner": "\x01x", "no size": "\x04x", "no signal": "\x06{\"signal\":\"SIGNONE\"}",
	} {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, "", nil)
			c := s.startExec(shell1("exec sleep 1000"))
			c.read(func() bool { return c.id != "" })
			c.send(send[0], send[1:])
			for c.next() == nil {
			}
			back := s.startExec(url.Values{"id": {c.id}, "offset": {"0"}})
			back.read(func() bool { return back.id == c.id })
			if st := callJSON[statusReply](s, "GET", "/status", "", 200); st.Commands != 1 {
				t.Errorf("%d commands run, want 1", st.Commands)
			}
		})
	}
}

func TestSeveralCommandsRunAtOnceAndTheLimitIsTold(t *testing.T) {
	s := startSandbox(t, "", nil)
	const limit = 16
	for range limit {
		c := s.startExec(shell1("exec sleep 1000"))
		c.read(func() bool { return c.id != "" })
	}
	_, response, err := s.dialExec(execwire.Protocol, shell1("true"))
	if err == nil {
		t.Fatal("one more was taken")
	}
	var e apiError
	_ = json.NewDecoder(response.Body).Decode(&e)
	if response.StatusCode != http.StatusTooManyRequests || !strings.Contains(e.Message, "16") {
		t.Errorf("one more is answered %d %+v, want 429 and the limit", response.StatusCode, e)
	}
}

func TestTheRunnersEndEndsCommands(t *testing.T) {
	s := startSandbox(t, "", nil)
	c := s.startExec(shell1("trap '' HUP TERM; echo $$; while :; do sleep 0.02; done"))
	c.read(func() bool { return strings.HasSuffix(c.out, "\n") })
	var pid int
	_, _ = fmt.Sscan(c.out, &pid)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("the command is there after the runner: %v", err)
	}
}

func TestStoppingTheAppLeavesCommandsAlone(t *testing.T) {
	s := startSandbox(t, "exec sleep 1000", nil)
	// The grandchild has lost its parent and is the runner's child.
	c := s.startExec(shell1(`(sh -c 'while [ ! -e go ]; do sleep 0.02; done; echo alive' &); read x`, "stdin"))
	c.read(func() bool { return c.id != "" })
	callJSON[restartReply](s, "POST", "/restart", "", 200)
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"go"}]}`, 200)
	c.read(func() bool { return c.out == "alive\n" })
}

func TestEnvironment(t *testing.T) {
	s := startSandbox(t, `echo "A=$A B=$B"; exec sleep 1000`, nil)
	lines := s.lines("")
	await(t, lines, "A= B=")
	reply := callJSON[envReply](s, "POST", "/env", `{"set":{"A":"secret value","B":"2"},"restart":"auto"}`, 200)
	if diff := cmp.Diff(envReply{Set: []string{"A", "B"}, Changed: true, Restarted: true}, reply, cmp.AllowUnexported(apiError{})); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	await(t, lines, "A=secret value B=2")
	callJSON[envReply](s, "POST", "/env", `{"unset":["B"],"restart":"always"}`, 200)
	await(t, lines, "A=secret value B=")
	if reply := callJSON[envReply](s, "POST", "/env", `{"set":{"A":"secret value"},"restart":"auto"}`, 200); reply.Changed || reply.Restarted {
		t.Errorf("setting what is set is answered %+v", reply)
	}
	status, text := s.call("GET", "/env", "")
	if status != 200 || !strings.Contains(text, `"A"`) || strings.Contains(text, "secret value") {
		t.Errorf("GET /env answers %d %s, want names and no values", status, text)
	}
	if strings.Contains(s.log.String(), "secret value") {
		t.Error("the runner's log has a value")
	}
}

func TestTheEnvironmentOutlivesTheRunner(t *testing.T) {
	s := startSandbox(t, "", nil)
	callJSON[envReply](s, "POST", "/env", `{"set":{"KEPT":"x"}}`, 200)
	info, err := os.Stat(filepath.Join(s.dir, ".sandbar/state/environment"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file's mode is %v, %v; want 0600", info.Mode(), err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	again := startSandbox(t, "echo kept=$KEPT; exec sleep 1000", func(c *Config) { c.Workdir = s.dir })
	await(t, again.lines(""), "kept=x")
}

func TestEnvironmentsThatAreRefused(t *testing.T) {
	s := startSandbox(t, "", nil)
	many := map[string]string{}
	for i := range maxVariables + 1 {
		many[fmt.Sprintf("V%d", i)] = ""
	}
	tooMany, _ := json.Marshal(envRequest{Set: many})
	large := map[string]string{}
	for i := range 9 {
		large[fmt.Sprintf("V%d", i)] = strings.Repeat("x", maxVariableBytes)
	}
	tooLarge, _ := json.Marshal(envRequest{Set: large})
	for name, test := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"the runner's own":         {`{"set":{"SANDBAR_X":"secret"}}`, 400, "SANDBAR_X is the runner's own: leave it out"},
		"the port":                 {`{"set":{"PORT":"1"}}`, 400, "PORT is the runner's own: leave it out"},
		"an empty name":            {`{"set":{"":"secret"}}`, 400, "name"},
		"a name with a sign":       {`{"set":{"A=B":"secret"}}`, 400, "name"},
		"a name with a digit":      {`{"set":{"1A":"secret"}}`, 400, "name"},
		"a value with a zero byte": {`{"set":{"A":"secret\u0000"}}`, 400, "zero"},
		"a value too long":         {`{"set":{"A":"` + strings.Repeat("s", maxVariableBytes+1) + `"}}`, 413, "32768"},
		"too many":                 {string(tooMany), 413, "256"},
		"too much":                 {string(tooLarge), 413, "262144"},
		"a value of another type":  {`{"set":{"A":["secret"]}}`, 400, "body"},
		"an unknown field":         {`{"secret":1}`, 400, "body"},
		"two objects":              {`{}{}`, 400, "body"},
		"an unknown restart":       {`{"restart":"now"}`, 400, "restart"},
	} {
		t.Run(name, func(t *testing.T) {
			e := callJSON[apiError](s, "POST", "/env", test.body, test.status)
			if !strings.Contains(e.Message, test.says) || strings.Contains(e.Message, "secret") {
				t.Errorf("the message is %q, want %q and no value", e.Message, test.says)
			}
		})
	}
	if reply := callJSON[envReply](s, "GET", "/env", "", 200); len(reply.Set) != 0 {
		t.Errorf("%v is set", reply.Set)
	}
}

func FuzzExecMessages(f *testing.F) {
	f.Add([]byte(`{"Width":80,"Height":24}`))
	f.Add([]byte(`{"signal":"SIGINT"}`))
	f.Add([]byte(`{"Width":-1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		_, _ = parseSize(p)
		if sig, err := parseSignal(p); err == nil && (sig <= 0 || sig > 64) {
			t.Errorf("%q is signal %d", p, sig)
		}
	})
}

func TestAMessageAboveTheLimitEndsTheConnection(t *testing.T) {
	s := startSandbox(t, "", nil)
	c := s.startExec(shell1("echo ready; cat >/dev/null; echo end", "stdin"))
	c.read(func() bool { return c.out == "ready\n" })
	c.send(execwire.ChannelStdin, strings.Repeat("x", execwire.MaxInputBytes-1)) // with its channel it is the limit
	c.send(execwire.ChannelStdin, strings.Repeat("x", execwire.MaxInputBytes))
	var err error
	for err == nil {
		err = c.next()
	}
	if wsconn.CloseCode(err) != websocket.CloseMessageTooBig {
		t.Errorf("the connection ended with %v", err)
	}
}
