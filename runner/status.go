// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/supervise"
)

// capabilities lists what this runner can do beyond the first version of the
// contract, for clients that meet several versions.
var capabilities = []string{"changes", "env", "exec", "exec.list", execwire.CapabilityMessage, "exec.observe", "exec.resume", "files", "files.chunks", "logs.follow", "logs.offset", "restart", "sync.batch", "sync.json", "sync.staged"}

// probeTimeout bounds one try to connect to the app, which is on this machine.
const probeTimeout = 500 * time.Millisecond

// statusReply is the body of GET /status.
type statusReply struct {
	State         supervise.State `json:"state"`
	Message       string          `json:"message,omitempty"`
	PID           int             `json:"pid,omitempty"`
	Attempt       uint32          `json:"attempt"`
	Crashing      bool            `json:"crashing,omitempty"`
	Restarts      int             `json:"restarts"`
	StartTime     *time.Time      `json:"startTime,omitempty"`
	NextStartTime *time.Time      `json:"nextStartTime,omitempty"`
	LastExit      *supervise.Exit `json:"lastExit,omitempty"`

	Port          int    `json:"port"`
	PortReachable bool   `json:"portReachable"`
	PortMessage   string `json:"portMessage,omitempty"`

	// Reload tells of the rules that a sync set off last.
	Reload    *syncwire.Reload `json:"reload,omitempty"`
	Workspace workspaceReply   `json:"workspace"`
	Logs      logsReply        `json:"logs"`
	// Commands counts those of GET /exec that run.
	Commands     int         `json:"commands"`
	Capabilities []string    `json:"capabilities"`
	Runner       runnerReply `json:"runner"`
}

type workspaceReply struct {
	Revision int64 `json:"revision"`
}

// logsReply has the name of the log, and the offsets of the oldest byte that can be
// read and of the next one.
type logsReply struct {
	ID          string `json:"id"`
	FirstOffset int64  `json:"firstOffset"`
	NextOffset  int64  `json:"nextOffset"`
}

type runnerReply struct {
	Version   string    `json:"version"`
	StartTime time.Time `json:"startTime"`
}

func (s *server) status(w http.ResponseWriter, r *http.Request) error {
	app := s.supervisor.Status()
	reply := statusReply{
		State: app.State, Message: app.Message, PID: app.PID, Attempt: app.Attempt,
		Restarts: app.Restarts, LastExit: app.LastExit,
		StartTime: present(app.StartTime), NextStartTime: present(app.NextStart),
		Crashing:     app.Crashing(time.Now()),
		Port:         s.config.Port,
		Workspace:    workspaceReply{Revision: s.workspace.Revision()},
		Reload:       s.reloader.status(),
		Commands:     s.execs.Running(),
		Capabilities: capabilities,
		Runner:       runnerReply{Version: s.config.Version, StartTime: s.began},
	}
	reply.PortReachable, reply.PortMessage = probe(r.Context(), s.config.Port)
	reply.Logs.ID = s.ring.ID()
	reply.Logs.FirstOffset, reply.Logs.NextOffset = s.ring.Bounds()
	writeJSON(w, http.StatusOK, reply)
	return nil
}

// appHealth is for the kubelet's readiness probe, which cannot send a token and
// reads no body: an app that does not stay up makes the pod not ready, so that the
// preview's Service leaves it out and the instance's condition tells. The runner
// itself stays reachable, by a Service that publishes what is not ready too. An
// empty workspace is no failure: nobody has brought anything that could run.
func (s *server) appHealth() error {
	app := s.supervisor.Status()
	if !app.Crashing(time.Now()) {
		return nil
	}
	if empty, err := s.workspace.Empty(); err != nil || empty {
		return err
	}
	return &apiError{status: http.StatusServiceUnavailable, Code: "AppCrashing", Message: app.LastExit.Explain()}
}

// readyz tells whether the app answers where the preview looks for it.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) error {
	reachable, message := probe(r.Context(), s.config.Port)
	if !reachable {
		return &apiError{status: http.StatusServiceUnavailable, Code: "NotReady", Message: message}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	return nil
}

// present returns nil for the zero time, which JSON would show as the year 1.
func present(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// probe tells whether the app's port accepts connections from outside of the pod,
// and if not, what to do.
func probe(ctx context.Context, port int) (bool, string) {
	if outside := outsideAddress(); outside != "" && accepts(ctx, outside, port) {
		return true, ""
	} else if !accepts(ctx, "127.0.0.1", port) && !accepts(ctx, "::1", port) {
		return false, "nothing listens on port " + strconv.Itoa(port) + " yet"
	} else if outside == "" {
		return true, ""
	}
	// The default of many development servers, and a riddle to everyone who then
	// sees no preview.
	return false, "the app listens on the loopback address only; make it listen on 0.0.0.0"
}

// outsideAddress returns an address of this machine that others can reach, or
// nothing when there is none.
func outsideAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			return network.IP.String()
		}
	}
	return ""
}

func accepts(ctx context.Context, host string, port int) bool {
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
