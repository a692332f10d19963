// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawRequest is what a rawPod read: the head byte by byte as it came, and the body.
type rawRequest struct{ head, body string }

// rawPod is a pod that reads HTTP by the letter of RFC 9112 and nothing beyond it. What two
// readers could understand in two ways it reports as an error. It does not use net/http, whose
// own view of a request would hide a difference.
type rawPod struct {
	net.Listener

	mu        sync.Mutex
	requests  []rawRequest
	ambiguous []string
}

func newRawPod(t *testing.T) *rawPod {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &rawPod{Listener: l}
	var wg sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[conn] = true
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				for p.serve(conn, bufio.NewReader(conn)) {
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return p
}

// take returns what came since the last call.
func (p *rawPod) take() (requests []rawRequest, ambiguous []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests, ambiguous = p.requests, p.ambiguous
	p.requests, p.ambiguous = nil, nil
	return requests, ambiguous
}

var (
	rawRequestLine  = regexp.MustCompile(`^[A-Z]+ /[!-~]* HTTP/1\.1$`)
	rawHeaderLine   = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+:[ \t]*[\t -~\x80-\xff]*$`)
	rawControlToken = regexp.MustCompile(`sandbox.control.token:`)
	rawChunkSize    = regexp.MustCompile(`^[0-9a-f]{1,8}$`)
)

// serve reads one request and answers it. It returns whether there may be another.
func (p *rawPod) serve(conn net.Conn, in *bufio.Reader) bool {
	head, err := readHead(in)
	if head == "" {
		return false
	}
	note := func(format string, args ...any) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ambiguous = append(p.ambiguous, fmt.Sprintf(format, args...))
		return false
	}
	if err != nil {
		return note("the head %q ended with %v", head, err)
	}
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	if !rawRequestLine.MatchString(lines[0]) {
		return note("the request line is %q", lines[0])
	}
	framing := map[string][]string{}
	for _, line := range lines[1:] {
		if !rawHeaderLine.MatchString(line) {
			return note("a header line is %q", line)
		}
		name, value, _ := strings.Cut(line, ":")
		name = strings.ToLower(name)
		framing[name] = append(framing[name], strings.Trim(value, " \t"))
	}
	if len(framing["host"]) != 1 || len(framing["content-length"])+len(framing["transfer-encoding"]) > 1 {
		return note("the framing of %q is ambiguous", head)
	}
	body, err := readBody(in, framing)
	if errors.Is(err, errRawFraming) {
		return note("the body of %q: %v", head, err)
	}
	if err != nil {
		return false // cut: what is not whole is no request
	}
	p.mu.Lock()
	p.requests = append(p.requests, rawRequest{head, body})
	p.mu.Unlock()
	_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	return err == nil
}

func readHead(in *bufio.Reader) (string, error) {
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		b, err := in.ReadByte()
		if err != nil {
			return head.String(), err
		}
		head.WriteByte(b)
	}
	return head.String(), nil
}

var errRawFraming = errors.New("not by the letter")

func readBody(in *bufio.Reader, framing map[string][]string) (string, error) {
	if len(framing["content-length"]) == 1 {
		length, err := strconv.ParseUint(framing["content-length"][0], 10, 31)
		if err != nil {
			return "", errRawFraming
		}
		body := make([]byte, length)
		_, err = io.ReadFull(in, body)
		return string(body), err
	}
	if len(framing["transfer-encoding"]) == 0 {
		return "", nil
	}
	if framing["transfer-encoding"][0] != "chunked" {
		return "", errRawFraming
	}
	var body strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		size := strings.TrimSuffix(line, "\r\n")
		if !rawChunkSize.MatchString(size) {
			return "", errRawFraming
		}
		n, _ := strconv.ParseUint(size, 16, 32)
		data := make([]byte, n+2)
		if _, err := io.ReadFull(in, data); err != nil {
			return "", err
		}
		if string(data[n:]) != "\r\n" {
			return "", errRawFraming // also for trailers: we send none
		}
		body.Write(data[:n])
		if n == 0 {
			return body.String(), nil
		}
	}
}

// ambiguous is a request of the corpus in testdata/smuggling. In such a file, lines that begin
// with # come first: why the request is there; the codes of all answers; and how many whole
// requests reach the pod. The rest is the request: Go escapes are resolved, ends of lines in the
// file count for nothing, and names in braces stand for what smugglingValues says.
type ambiguous struct {
	name, why, raw string
	answers        []int
	pod            int
}

const smuggledRequest = "GET " + demo + "proxy/smuggled HTTP/1.1\r\nHost: x\r\nX-Smuggled: 1\r\n\r\n"

var smugglingValues = strings.NewReplacer(
	"{proxy}", demo+"proxy/outer", "{sync}", demo+"sync", "{echo}", demo+"echo", "{token}", adminToken,
	"{auth}", "Host: x\r\nAuthorization: Bearer "+adminToken+"\r\n",
	"{smuggled}", smuggledRequest, "{len}", strconv.Itoa(len(smuggledRequest)), "{big}", strings.Repeat("a", 40<<10),
)

func readCorpus(t testing.TB) []ambiguous {
	t.Helper()
	files, err := filepath.Glob("testdata/smuggling/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []ambiguous
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := ambiguous{name: strings.TrimSuffix(filepath.Base(file), ".txt"), pod: -1}
		var raw strings.Builder
		for line := range strings.SplitSeq(string(data), "\n") {
			comment, isComment := strings.CutPrefix(line, "# ")
			answers, isAnswers := strings.CutPrefix(comment, "answers: ")
			pod, isPod := strings.CutPrefix(comment, "pod: ")
			switch {
			case isAnswers:
				for code := range strings.FieldsSeq(answers) {
					n, err := strconv.Atoi(code)
					if err != nil {
						t.Fatalf("%s: %v", file, err)
					}
					c.answers = append(c.answers, n)
				}
			case isPod:
				if c.pod, err = strconv.Atoi(pod); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			case isComment:
				c.why += comment
			default:
				text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(line, `\"`, `"`), `"`, `\"`) + `"`)
				if err != nil {
					t.Fatalf("%s: %q: %v", file, line, err)
				}
				raw.WriteString(text)
			}
		}
		c.raw = smugglingValues.Replace(raw.String())
		if c.why == "" || len(c.answers) == 0 || c.pod < 0 {
			t.Fatalf("%s does not say why, what answers, or what reaches the pod", file)
		}
		corpus = append(corpus, c)
	}
	return corpus
}

// One request in, at most one out, and never with a header that the caller smuggled; a request
// that is found behind another is authorized by itself.
func TestAmbiguousRequestsAreNotSmuggled(t *testing.T) {
	corpus := readCorpus(t)
	if len(corpus) < 80 {
		t.Fatalf("the corpus has only %d requests", len(corpus))
	}
	pod := newRawPod(t)
	w := newWorld(t, nil, func(s *setup) {
		s.backendAddress = pod.Addr().String()
		s.opts.Limits.StallTimeout = 200 * time.Millisecond
	})
	w.received2xx(demo + "proxy/warm")
	pod.take()
	for _, c := range corpus {
		t.Run(c.name, func(t *testing.T) {
			answers := w.exchangeRaw(t, c)
			if fmt.Sprint(answers) != fmt.Sprint(c.answers) {
				t.Errorf("the answers are %v, want %v", answers, c.answers)
			}
			requests, ambiguous := pod.take()
			for _, note := range ambiguous {
				t.Errorf("two readers could disagree about what the pod got: %s", note)
			}
			if len(requests) != c.pod {
				t.Errorf("the pod got %d requests, want %d: %q", len(requests), c.pod, requests)
			}
			for _, r := range requests {
				wantUnsmuggled(t, r)
			}
		})
	}
}

func wantUnsmuggled(t *testing.T, r rawRequest) {
	t.Helper()
	lower := strings.ToLower(r.head)
	if strings.Contains(lower, "smuggled") {
		t.Errorf("the pod got a smuggled header:\n%s", r.head)
	}
	control := strings.Count(lower, "x-sandbox-control-token: "+controlToken+"\r\n")
	want := 1
	if path, _, _ := strings.Cut(strings.SplitN(r.head, " ", 3)[1], "?"); strings.HasPrefix(path, "/outer") {
		want = 0
		for _, ours := range []string{"x-forwarded-prefix: " + demo + "proxy\r\n", "x-forwarded-proto: http\r\n"} {
			if strings.Count(lower, strings.ToLower(ours)) != 1 {
				t.Errorf("the pod did not get %q:\n%s", ours, r.head)
			}
		}
	}
	if control != want || len(rawControlToken.FindAllString(lower, -1)) != want {
		t.Errorf("the control token is there %d times, want %d:\n%s", control, want, r.head)
	}
	if strings.Contains(lower, adminToken) {
		t.Errorf("the pod got the caller's token")
	}
}

// received2xx waits until the way to the pod is known.
func (w *world) received2xx(path string) {
	w.t.Helper()
	if res, body := w.do("GET", path, adminToken, nil); res.StatusCode/100 != 2 {
		w.t.Fatalf("got %d %s", res.StatusCode, body)
	}
}

// exchangeRaw sends a request as it is and returns the codes of the answers. When these have come
// it sends one more that everybody may send and that ends the connection: its answer must be the
// next and the last, or something of the request was still waiting to be read as another.
func (w *world) exchangeRaw(t *testing.T, c ambiguous) []int {
	t.Helper()
	conn := w.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, c.raw); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	var answers []int
	for {
		if len(answers) == len(c.answers) {
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return answers
		}
		body, _ := io.ReadAll(res.Body)
		if len(answers) == len(c.answers) && res.StatusCode == http.StatusOK && strings.HasPrefix(string(body), "ok") && res.Close {
			return answers
		}
		answers = append(answers, res.StatusCode)
	}
}

// A body that nobody reads to its end is never read as requests. net/http sees to that as long
// as it finds its own body in its own request; when ours stood in its place, what was left of an
// upload after the pod had answered was taken for the next requests of the connection.
func TestABodyThatIsLeftOverIsNotReadAsRequests(t *testing.T) {
	for name, c := range map[string]struct {
		path, token string
		pod         http.HandlerFunc
	}{
		"the caller is refused": {"proxy/outer", "stranger", nil},
		"the verb is unknown":   {"nosuch", adminToken, nil},
		"the pod answers before it has read": {"proxy/outer", adminToken, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}},
		"the pod answers and never reads": {"proxy/outer", adminToken, func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			t.Cleanup(func() { conn.Close() })
		}},
		"the pod answers and closes": {"proxy/outer", adminToken, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			conn.Close()
		}},
		"the pod closes without an answer": {"proxy/outer", adminToken, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			conn.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			smuggled := make(chan struct{}, 100000)
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/smuggled" {
					smuggled <- struct{}{}
					return
				}
				c.pod(w, r)
			}))
			one := "GET " + demo + "proxy/smuggled HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + adminToken + "\r\n\r\n"
			body := strings.Repeat(one, (16<<20)/len(one)) // more than the kernel's buffers take
			conn := w.dial()
			go func() {
				fmt.Fprintf(conn, "POST %s%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", demo, c.path, c.token, len(body))
				_, _ = io.WriteString(conn, body+"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			}()
			in, answers := bufio.NewReader(conn), 0
			for {
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, res.Body)
				if answers++; res.Close {
					break
				}
			}
			if answers > 2 || len(smuggled) > 0 {
				t.Errorf("two requests got %d answers, and %d requests from the first one's body reached the pod", answers, len(smuggled))
			}
		})
	}
}
