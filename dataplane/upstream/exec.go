// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/podexec"
)

const (
	// cleanTimeout bounds how long the data plane is busy with what a command has left. It is less than a server
	// that ends waits for what is under way, and more than the script's own times together.
	cleanTimeout = 8 * time.Second
	// maxCleanings bounds how many of these are under way, and maxWorkspaceCleanings those of one workspace, so that
	// it cannot keep others from theirs. The rest waits for its turn within the same time.
	maxCleanings          = 64
	maxWorkspaceCleanings = 16
	// maxContainers bounds the containers of which it is known whether they have env. In another one without env a
	// command is begun twice.
	maxContainers = 4096
	// secondTimeout bounds how long the API server takes to answer for a command of our own, or one that is begun
	// again.
	secondTimeout = 10 * time.Second
)

// The results of looking for what a command has left, as the metric has them.
const (
	cleanEnded   = "ended"
	cleanGone    = "gone"
	cleanLeft    = "left"
	cleanNoShell = "no_shell"
	cleanBusy    = "busy"
	cleanFailed  = "failed"
)

var cleanResults = []string{cleanEnded, cleanGone, cleanLeft, cleanNoShell, cleanBusy, cleanFailed}

var (
	errNoUpgrade = errors.New("the runtime API server did not switch protocols")
	errBusy      = errors.New("too many commands have lost their callers at once")
)

// container is one of a pod, until it is started again.
type container struct {
	pod      types.UID
	name     string
	restarts int32
}

// execWay is what the way to a pod's exec has beside its URL: the marked command, which the URL has, and the URL of
// the command without the mark.
type execWay struct {
	command  podexec.Command
	unmarked url.URL
	in       container
	known    podexec.Knowledge
	// workspace is the logical cluster of the instance; namespace and pod are where the container is.
	workspace, namespace, pod string
}

// markExec puts a mark on the command of a query. It leaves the query as it is, and returns nil, where that cannot
// be.
func (a *apiServer) markExec(query url.Values, to *locate.Target, u url.URL) *execWay {
	in := container{pod: to.Pod.UID, name: query.Get("container")}
	in.restarts = locate.Restarts(to.Pod, in.name)
	known, _ := a.containers.Get(in)
	command, ok := podexec.New(query["command"], query.Has("tty"))
	if !ok || known == podexec.LacksEnv {
		return nil
	}
	u.RawQuery = query.Encode()
	query["command"] = command.Marked()
	return &execWay{
		command: command, unmarked: u, in: in, known: known,
		workspace: to.At.Owner.Cluster, namespace: to.Namespace, pod: to.Pod.Name,
	}
}

// watchExec returns the connection over which the relay hears of a marked command, and has what is left of the
// command ended when the request ends.
func (w *Ways) watchExec(ctx context.Context, c *Call, up Way, pod net.Conn, early []byte) net.Conn {
	x, header := up.exec, up.header
	watched := podexec.Watch(pod, early, x.command, x.known, func() (net.Conn, []byte, error) {
		w.apiServer.containers.Add(x.in, podexec.LacksEnv) // at once, for the next command
		ctx, cancel := context.WithTimeout(ctx, secondTimeout)
		defer cancel()
		return w.apiServer.open(ctx, x.unmarked, header)
	})
	c.Minder.AtEnd(func() {
		_ = watched.Close()
		if known := watched.Known(); known != podexec.Unknown && known != x.known {
			w.apiServer.containers.Add(x.in, known)
		}
		if left, begun := watched.Left(); left {
			w.clean(ctx, x, header, begun)
		}
	})
	return watched
}

// clean ends what a command has left in its pod. Whether the caller may do so was judged for the command, and ended
// is nothing but what that began. It runs within the request, so that the limits of streams bound how often one
// instance or workspace has it done, and a server that drains waits for it.
func (w *Ways) clean(ctx context.Context, x *execWay, header http.Header, begun bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	err := w.endLeft(ctx, x, header, begun)
	if err != nil && !w.stillRuns(x) {
		err = errGone
	}
	result := cleanResult(err)
	w.metrics.LeftCommands.Get(result).Inc()
	if result != cleanEnded && result != cleanGone {
		w.log.Warn("processes may be left of a command whose caller has gone", "namespace", x.namespace, "pod", x.pod, "result", result, "error", err)
	}
}

// errGone means that the container in which a command ran has gone, and all its processes with it.
var errGone = errors.New("the container is another one")

func cleanResult(err error) string {
	switch {
	case err == nil:
		return cleanEnded
	case errors.Is(err, errGone):
		return cleanGone
	case errors.Is(err, podexec.ErrLeft):
		return cleanLeft
	case errors.Is(err, podexec.ErrNoShell):
		return cleanNoShell
	case errors.Is(err, errBusy):
		return cleanBusy
	}
	return cleanFailed
}

// endLeft runs the command that ends what is left, if the pod is still the one in which the caller's command began.
// In another one, of which the cache does not know yet, it would find nothing: no process there has the mark.
func (w *Ways) endLeft(ctx context.Context, x *execWay, header http.Header, begun bool) error {
	done, ok := w.cleanings.begin(ctx, x.workspace)
	if !ok {
		return errBusy
	}
	defer done()
	if !w.stillRuns(x) {
		return errGone
	}
	wait := podexec.StartPatience
	if begun {
		wait = 0
	}
	u := x.unmarked
	u.RawQuery = url.Values{"command": x.command.End(wait), "container": {x.in.name}, "stdout": {"true"}}.Encode()
	conn, early, err := w.apiServer.open(ctx, u, header)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	return podexec.AwaitEnd(&earlyConn{Conn: conn, early: early}) //nolint:wrapcheck // it says what it waited for
}

// stillRuns reports whether the container in which a command began runs, and was not started again.
func (w *Ways) stillRuns(x *execWay) bool {
	now := locate.Lookup[corev1.Pod](w.direct.cache.Pods, x.namespace+"/"+x.pod)
	return now != nil && now.UID == x.in.pod && locate.Restarts(now, x.in.name) == x.in.restarts && locate.Running(now, x.in.name)
}

// open makes a connection to a pod's exec for ourselves; early was read of it already. ctx bounds the handshake.
func (a *apiServer) open(ctx context.Context, u url.URL, header http.Header) (conn net.Conn, early []byte, err error) {
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn }})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for the pod's exec: %w", err)
	}
	req.Header = maps.Clone(header)
	req.Header.Set("Connection", "Upgrade, close") // see handshake
	req.Header.Set("Upgrade", protocolWebSocket)
	req.Header.Set(access.ProtocolHeader, protocolRemoteCommand)
	req.Close = true
	res, err := a.RoundTrip(req)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for the pod's exec: %w", err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols || conn == nil || res.Header.Get(access.ProtocolHeader) != protocolRemoteCommand {
		_ = res.Body.Close()
		return nil, nil, fmt.Errorf("%w: it answered %d", errNoUpgrade, res.StatusCode)
	}
	if early, err = drain(res.Body, conn); err != nil {
		_ = res.Body.Close()
		return nil, nil, err
	}
	return &bodyConn{Conn: conn, body: res.Body}, early, nil
}

// bodyConn is a connection that net/http has lent, and wants back.
type bodyConn struct {
	net.Conn

	body io.Closer
}

// Close implements net.Conn.
func (c *bodyConn) Close() error {
	return errors.Join(c.Conn.Close(), c.body.Close())
}

// CloseWrite ends one way.
func (c *bodyConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return net.ErrClosed
	}
	return half.CloseWrite() //nolint:wrapcheck // a connection's own
}

// earlyConn is a connection of which something was read already.
type earlyConn struct {
	net.Conn

	early []byte
}

// Read implements net.Conn.
func (c *earlyConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.Conn.Read(p) //nolint:wrapcheck // a connection's own
}
