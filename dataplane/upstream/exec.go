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
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

const (
	// endTimeout bounds how long the command of a caller that has gone is looked after: until it has begun,
	// and until it has ended. A server that ends waits a little longer for what is under way.
	endTimeout = 8 * time.Second
	// maxEndAttempts is how often that is tried, and endPause is how long it waits in between.
	maxEndAttempts = 3
	endPause       = time.Second
	// maxUnnamed bounds the containers that are known to have no shell, or another environment with one; a
	// command in another one is begun twice. maxNamed bounds the programs that are known to be named in a
	// container, with names of maxNamedBytes at most; of others the shell looks whether they can be.
	maxUnnamed    = 4096
	maxNamed      = 4096
	maxNamedBytes = 256
)

var errNoUpgrade = errors.New("the runtime API server did not switch protocols")

// container is one of a pod, until it is started again.
type container struct {
	pod      types.UID
	name     string
	restarts int32
}

// program is one of a container's.
type program struct {
	in   container
	name string
}

// execWay is what the way to a pod's exec has beside its URL: the command, which the URL has with the script
// that names its process, and where it is as it is.
type execWay struct {
	command podexec.Command
	asIs    url.URL
	in      container
}

// execQuery has a command begin so that its process is known. It leaves the query as it is, and returns nil,
// for what cannot.
func (a *apiServer) execQuery(query url.Values, to *locate.Target, u url.URL) *execWay {
	in := container{pod: to.Pod.UID, name: query.Get("container")}
	in.restarts = locate.Restarts(to.Pod, in.name)
	command, ok := podexec.New(query["command"], query.Has("stdout"), query.Has("stderr"), query.Has("tty"))
	if _, unnamed := a.unnamed.Get(in); unnamed || !ok {
		return nil
	}
	u.RawQuery = query.Encode()
	_, checked := a.named.Get(program{in, command.Arguments[0]})
	query["command"] = command.Started(checked)
	return &execWay{command: command, asIs: u, in: in}
}

// watch has the process of a command ended that is left when the request ends. It returns the connection
// over which the relay hears of the command.
func (w *Ways) watch(ctx context.Context, c *Call, to *locate.Target, up Way, pod net.Conn, early []byte) net.Conn {
	x, header := up.exec, up.header
	watched := podexec.Watch(pod, early, x.command, func(never bool) (net.Conn, []byte, error) {
		if never {
			w.apiServer.unnamed.Add(x.in, struct{}{})
		}
		return w.apiServer.open(ctx, x.asIs, header)
	})
	namespace, name := to.Namespace, to.Pod.Name
	c.Minder.AtEnd(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		left, ok := watched.Left(ctx)
		if name := x.command.Arguments[0]; watched.Named() && len(name) <= maxNamedBytes {
			w.apiServer.named.Add(program{x.in, name}, struct{}{})
		}
		if !ok {
			return
		}
		outcome, err := w.end(ctx, left, namespace+"/"+name, x, header)
		w.metrics.LeftCommands.Get(outcome).Inc()
		if err != nil {
			w.log.Warn("a command whose caller has gone may go on in its pod", "namespace", namespace, "pod", name, "error", err)
		}
	})
	return watched
}

// end ends a command whose caller has gone, if the pod with the key is still the one in which it began. What
// the caller may do was judged for the command, whose end this is.
func (w *Ways) end(ctx context.Context, left podexec.Process, pod string, x *execWay, header http.Header) (outcome string, err error) {
	run := func(ctx context.Context, command []string) (io.ReadCloser, error) {
		u := x.asIs
		u.RawQuery = url.Values{"command": command, "container": {x.in.name}, "stdout": {"true"}}.Encode()
		conn, early, err := w.apiServer.open(ctx, u, header)
		if err != nil {
			return nil, err
		}
		return &earlyConn{Conn: conn, early: early}, nil
	}
	for range maxEndAttempts {
		now := locate.Lookup[corev1.Pod](w.direct.cache.Pods, pod)
		if now == nil || now.UID != x.in.pod || locate.Restarts(now, x.in.name) != x.in.restarts || !locate.Running(now, x.in.name) {
			return podexec.Gone, nil
		}
		if outcome, err = podexec.End(ctx, left, run); err == nil || pause.For(ctx, endPause) != nil {
			break
		}
	}
	return outcome, err
}

// open makes a connection to a pod's exec for ourselves; early was read of it already.
func (a *apiServer) open(ctx context.Context, u url.URL, header http.Header) (conn net.Conn, early []byte, err error) {
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn }})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for the pod's exec: %w", err)
	}
	req.Header = maps.Clone(header)
	req.Header.Set("Connection", "Upgrade, close")
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
