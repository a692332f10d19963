// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	codeexec "k8s.io/client-go/util/exec"
)

// twoServers is a pod's process with two servers that repeats what it reads.
const twoServers = `for (const port of [8080, 8081]) require('http').createServer((q, s) => s.end(port + ' ' + q.url)).listen(port); process.stdin.on('data', d => process.stdout.write('got ' + d))`

// podTemplate is a kind without a runner: one Pod of twoServers.
const podTemplate = templateHead + `
      spec:
        text: string | default="x"
        suspended: boolean | default=false
      status:
        podRef:
          name: ${pod.metadata.name}
          namespace: ${pod.metadata.namespace}
    resources:
    - id: platform
      externalRef:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: sandbar-platform, namespace: sandbar-system}
    - id: pod
      readyWhen: ['${pod.status.?phase.orValue("") == "Running"}']
      template:
        apiVersion: v1
        kind: Pod
        metadata:
          name: main
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        spec:
          automountServiceAccountToken: false
          terminationGracePeriodSeconds: 0
          securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
          containers:
          - name: main
            image: ${platform.data.nodeImage}
            imagePullPolicy: IfNotPresent
            stdin: true
            command: [node, -e, "` + twoServers + `"]
            ports:
            - {name: first, containerPort: 8080}
            - {name: second, containerPort: 8081}
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
            resources: {limits: {cpu: 500m, memory: 256Mi}}
  dataPlane:
    endpoints:
      log: {podRef: status.podRef, podSubresource: log, methods: [GET], stream: true}
      exec: {podRef: status.podRef, podSubresource: exec, methods: [GET], upgrade: true}
      attach: {podRef: status.podRef, podSubresource: attach, methods: [GET], upgrade: true}
      port-forward: {podRef: status.podRef, podSubresource: portforward, methods: [GET], upgrade: true}
      proxy: {podRef: status.podRef, podSubresource: proxy, methods: [GET, POST], upgrade: true}
`

// verbURL is the URL of a verb below the instance's own, as its status says.
func (i *instance) verbURL(t *testing.T, verb string, query url.Values) *url.URL {
	t.Helper()
	obj, err := i.get()
	if err != nil {
		t.Fatal(err)
	}
	base, _, _ := unstructured.NestedString(obj.Object, "status", "dataPlane", "url")
	u, err := url.Parse(base + "/" + verb)
	if err != nil || base == "" {
		t.Fatalf("status.dataPlane.url is %q: %v", base, err)
	}
	u.RawQuery = query.Encode()
	return u
}

func asClientGo(token string) *rest.Config {
	return &rest.Config{Host: world.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: world.CAFile}}
}

// remote runs kubectl's own code against exec or attach.
func (i *instance) remote(ctx context.Context, t *testing.T, token, verb string, opts remotecommand.StreamOptions, command ...string) error {
	t.Helper()
	query := url.Values{}
	for name, on := range map[string]bool{"stdin": opts.Stdin != nil, "stdout": opts.Stdout != nil, "stderr": opts.Stderr != nil, "tty": opts.Tty} {
		if on {
			query.Set(name, "true")
		}
	}
	if len(command) > 0 {
		query["command"] = command
	}
	executor, err := remotecommand.NewWebSocketExecutor(asClientGo(token), http.MethodGet, i.verbURL(t, verb, query).String())
	if err != nil {
		t.Fatal(err)
	}
	return executor.StreamWithContext(ctx, opts)
}

// TestPodVerbs: a kind without a runner is used with what kubectl itself is made of.
func TestPodVerbs(t *testing.T) {
	long(t, "TestSandboxVerbs has most of its promise; it waits until a stream is looked at again")
	changes(t)
	n := newNote(t)
	n.text = podTemplate
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice") // after the Template, so that its instances go before it
	box := tn.createNote(n, "box")
	box.waitReady()
	box.podVerbs(t)
	t.Run("SPDY is not offered, and the answer says what is", func(t *testing.T) {
		executor, err := remotecommand.NewSPDYExecutor(asClientGo(tn.token), http.MethodPost, box.verbURL(t, "exec", url.Values{"command": {"true"}, "stdout": {"true"}}))
		if err != nil {
			t.Fatal(err)
		}
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "v5.channel.k8s.io") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a right to read is no shell, and a right withdrawn ends one", func(t *testing.T) { box.withdrawn(t) })
}

// podVerbs uses each verb of a pod of twoServers whose ports are called first and second.
func (i *instance) podVerbs(t *testing.T) {
	t.Run("exec carries input, both outputs and the exit code", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		err := i.remote(t.Context(), t, i.tn.token, "exec", remotecommand.StreamOptions{Stdin: strings.NewReader("in\n"), Stdout: &stdout, Stderr: &stderr},
			"sh", "-c", `cat; echo "$0 $1" >&2; exit 7`, "a & b", "ü?=../%41")
		var exit codeexec.CodeExitError
		if !errors.As(err, &exit) || exit.Code != 7 || stdout.String() != "in\n" || stderr.String() != "a & b ü?=../%41\n" {
			t.Errorf("got %v with stdout %q and stderr %q", err, stdout.String(), stderr.String())
		}
	})
	t.Run("exec has a terminal whose size changes", func(t *testing.T) { i.terminal(t) })
	t.Run("two commands run at once", func(t *testing.T) { i.twoAtOnce(t) })
	t.Run("attach is the container's own process", func(t *testing.T) { i.attach(t) })
	t.Run("port-forward reaches ports of the pod", func(t *testing.T) { i.forward(t, "8080", "8081") })
	t.Run("proxy reaches the port that the path names", func(t *testing.T) {
		c := callAs(t, i.tn.token)
		for path, want := range map[string]string{
			"/ports/8080/proxy/a%2Fb?x=1": "8080 /a%2Fb?x=1", "/ports/first/proxy": "8080 /", "/ports/second/proxy/x": "8081 /x",
		} {
			if got := c.want(http.StatusOK, http.MethodGet, i.base()+path, nil); got != want {
				t.Errorf("%s: got %q, want %q", path, got, want)
			}
		}
		c.wantStatus(http.StatusBadGateway, http.MethodGet, i.base()+"/ports/9/proxy", nil)
		c.wantStatus(http.StatusNotFound, http.MethodGet, i.base()+"/ports/third/proxy", nil)
		c.wantStatus(http.StatusBadRequest, http.MethodGet, i.base()+"/proxy", nil)
	})
}

// TestSandboxVerbs: a tenant's own pod is used with what kubectl itself is made of.
func TestSandboxVerbs(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	box := tn.box("box", `
template:
  podTemplate:
    spec:
      containers:
      - {name: main, image: `+toolchain+`, stdin: true, command: [node, -e, "`+twoServers+`"], ports: [{name: first, containerPort: 8080}, {name: second, containerPort: 8081}]}
`)
	box.waitReady()
	box.podVerbs(t)
}

// sizes gives a terminal's sizes as they come.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func (i *instance) terminal(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, in := io.Pipe()
	queue := make(sizes, 1)
	defer close(queue)
	ended := make(chan error, 1)
	go func() {
		err := i.remote(ctx, t, i.tn.token, "exec", remotecommand.StreamOptions{Stdout: in, Tty: true, TerminalSizeQueue: queue},
			"node", "-e", `const o = process.stdout; console.log("tty " + o.isTTY); o.on("resize", () => { if (o.columns == 132) { console.log(o.columns + " " + o.rows); process.exit(3) } }); setInterval(() => {}, 1000)`)
		in.CloseWithError(err)
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "tty true" {
		t.Fatalf("the first line is %q (%v)", lines.Text(), lines.Err())
	}
	queue <- remotecommand.TerminalSize{Width: 132, Height: 43}
	if !lines.Scan() || lines.Text() != "132 43" {
		t.Errorf("the second line is %q (%v)", lines.Text(), lines.Err())
	}
	_, _ = io.Copy(io.Discard, out)
	var exit codeexec.CodeExitError
	if err := <-ended; !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("it ended with %v", err)
	}
}

func (i *instance) twoAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			var out bytes.Buffer
			// Each ends only when it has seen the other's file.
			err := i.remote(t.Context(), t, i.tn.token, "exec", remotecommand.StreamOptions{Stdout: &out},
				"sh", "-c", `touch /tmp/$0; until [ -e /tmp/$1 ]; do sleep 0.1; done; echo $0`, fmt.Sprint("at-once-", n), fmt.Sprint("at-once-", 1-n))
			if want := fmt.Sprintf("at-once-%d\n", n); err != nil || out.String() != want {
				t.Errorf("got %q (%v), want %q", out.String(), err, want)
			}
		})
	}
	wg.Wait()
}

func (i *instance) attach(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	input, keys := io.Pipe()
	output, in := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in.CloseWithError(i.remote(ctx, t, i.tn.token, "attach", remotecommand.StreamOptions{Stdin: input, Stdout: in}))
	}()
	if _, err := io.WriteString(keys, "hello\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "got hello" {
		t.Errorf("got %q (%v)", lines.Text(), lines.Err())
	}
	cancel()
	keys.Close()
	_, _ = io.Copy(io.Discard, output)
	<-ended
}

// forward forwards ports that serve HTTP, and at last one at which nobody listens.
func (i *instance) forward(t *testing.T, ports ...string) {
	forwarder, stop := i.forwarder(t, append(ports, "9")...)
	defer stop()
	local, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	for n, port := range ports {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/x", local[n].Local))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != port+" /x" {
			t.Errorf("port %s says %q (%v)", port, body, err)
		}
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local[len(ports)].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("a port at which nobody listens gave %d bytes, %v", n, err)
	}
}

func (i *instance) forwarder(t *testing.T, ports ...string) (forwarder *portforward.PortForwarder, end func()) {
	t.Helper()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(i.verbURL(t, "port-forward", nil), asClientGo(i.tn.token))
	if err != nil {
		t.Fatal(err)
	}
	pairs := make([]string, 0, len(ports))
	for _, port := range ports {
		pairs = append(pairs, "0:"+port)
	}
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err = portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, pairs, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("forwarding ports: %v", err)
	}
	return forwarder, func() { close(stop); <-ended }
}

func (i *instance) withdrawn(t *testing.T) {
	tn, resource := i.tn, i.gvr.Resource
	rule := func(verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{resource + "/exec"}, Verbs: []string{verb}}
	}
	reader := tn.role("reader", rule("get"), rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{resource}, Verbs: []string{"get"}})
	shell := tn.role("shell", rule("create"))
	tn.admit(reader, "carol")
	carol := world.Stack.Token("carol")
	run := func(ctx context.Context, out io.Writer, command ...string) error {
		return i.remote(ctx, t, carol, "exec", remotecommand.StreamOptions{Stdout: out}, command...)
	}
	// With access to the workspace and get on the object and the verb, the answer is still no.
	if err := run(t.Context(), io.Discard, "true"); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("with get on exec: %v", err)
	}
	tn.grant(shell, "carol")
	eventually(t, "carol has a shell", func() error { return run(t.Context(), io.Discard, "true") })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, in := io.Pipe()
	go func() { in.CloseWithError(run(ctx, in, "sh", "-c", "echo there; sleep 600")) }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "there\n" {
		t.Fatalf("got %q (%v)", line, err)
	}
	withdrawn := time.Now()
	admin := kubernetes.NewForConfigOrDie(world.Stack.KCPAdmin(tn.path))
	if err := admin.RbacV1().ClusterRoles().Delete(t.Context(), shell.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); ctx.Err() != nil {
		t.Errorf("the shell goes on a minute after the right has gone: %v", err)
	}
	t.Logf("the shell was cut after %v", time.Since(withdrawn).Round(100*time.Millisecond))
}

// TestRedisVerbs: the built-in Template that is no sandbox is used with kubectl's own code too.
func TestRedisVerbs(t *testing.T) {
	calm(t)
	tn := newTenant(t, "bob")
	db := tn.create(redis, "Redis", "cache", map[string]any{})
	db.waitReady()
	var out bytes.Buffer
	if err := db.remote(t.Context(), t, tn.token, "exec", remotecommand.StreamOptions{Stdout: &out}, "redis-cli", "SET", "key", "a value"); err != nil || out.String() != "OK\n" {
		t.Fatalf("redis-cli says %q (%v)", out.String(), err)
	}
	forwarder, stop := db.forwarder(t, "6379")
	defer stop()
	local, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	password := db.password(t)
	askRedis(t, fmt.Sprintf("127.0.0.1:%d", local[0].Local), password)
	t.Run("without the password there is no answer", func(t *testing.T) {
		address := fmt.Sprintf("127.0.0.1:%d", local[0].Local)
		if got := tellRedis(t, address, "GET key"); !strings.HasPrefix(got, "-NOAUTH") {
			t.Errorf("redis says %q", got)
		}
		if got := tellRedis(t, address, "AUTH wrong"); !strings.HasPrefix(got, "-WRONGPASS") {
			t.Errorf("redis says %q", got)
		}
	})
	t.Run("a right to read is none to the password", func(t *testing.T) {
		tn.admit(tn.role("reader",
			rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{"redis", "redis/password"}, Verbs: []string{"get"}}), "carol")
		callAs(t, world.Stack.Token("carol")).wantStatus(http.StatusForbidden, http.MethodPost, db.base()+"/password", nil)
	})
	t.Run("it is no argument of a process", func(t *testing.T) {
		var args bytes.Buffer
		err := db.remote(t.Context(), t, tn.token, "exec", remotecommand.StreamOptions{Stdout: &args}, "sh", "-c", "cat /proc/[0-9]*/cmdline")
		if err != nil || !strings.Contains(args.String(), "redis-server") || strings.Contains(args.String(), password) {
			t.Errorf("the processes are %q (%v)", args.String(), err)
		}
	})

	t.Run("and with sandbar's own", func(t *testing.T) {
		s := newTerminal(t, tn)
		s.must("trust", world.URL, "--ca-file", world.CAFile)
		if got := s.must("exec", "redis/cache", "--", "redis-cli", "GET", "key"); got != "a value\n" {
			t.Errorf("redis-cli says %q", got)
		}
		if code, _, _ := s.run("--resource", "redis.sandbar.dev", "exec", "cache", "--", "sh", "-c", "exit 7"); code != 7 {
			t.Errorf("a command that exits with 7 makes sandbar exit with %d", code)
		}
		out, _, stop := s.begin("port-forward", "cache", "0:6379")
		defer stop()
		await(t, out, " to port 6379\n")
		address, _, _ := strings.Cut(out.String(), " ")
		askRedis(t, address, password)
	})
}

// password is what the verb password answers.
func (i *instance) password(t *testing.T) string {
	t.Helper()
	var answer struct{ Password string }
	body := callAs(t, i.tn.token).want(http.StatusOK, http.MethodPost, i.base()+"/password", nil)
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Password) < 40 {
		t.Fatalf("the verb password answers %d bytes: %v", len(body), err)
	}
	return answer.Password
}

// askRedis asks for what TestRedisVerbs has set.
func askRedis(t *testing.T, address, password string) {
	t.Helper()
	if got := tellRedis(t, address, "AUTH "+password, "GET key"); got != "+OK\r\n$7\r\na value\r\n" {
		t.Errorf("redis says %q", got)
	}
}

// tellRedis sends commands and returns all answers.
func tellRedis(t *testing.T, address string, commands ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, strings.Join(commands, "\r\n")+"\r\nQUIT\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := strings.CutSuffix(string(answer), "+OK\r\n") // of QUIT
	return got
}
