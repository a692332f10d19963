// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sandbar-dev/sandbar/client"
)

//go:embed page
var page embed.FS

// maxBody bounds what a browser sends at once: a file that somebody edits.
const maxBody = 1 << 20

// policy keeps the page to its own scripts. Frames may be of any https origin, since each preview has a host of its own.
const policy = "default-src 'self'; frame-src https:; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"

type studio struct{ sessions *sessions }

// newStudio is all that App Studio serves.
func newStudio(s *sessions) http.Handler {
	st := &studio{s}
	mux := http.NewServeMux()
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // it is part of the program
	}
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("POST /api/session", st.login)
	mux.HandleFunc("DELETE /api/session", st.logout)
	for pattern, do := range map[string]action{
		"GET /api/session":                                    whoami,
		"GET /api/templates":                                  listTemplates,
		"GET /api/projects":                                   listProjects,
		"POST /api/projects":                                  createProject,
		"GET /api/projects/{resource}/{name}":                 getProject,
		"DELETE /api/projects/{resource}/{name}":              deleteProject,
		"GET /api/projects/{resource}/{name}/files":           listFiles,
		"GET /api/projects/{resource}/{name}/files/{path...}": readFile,
		"PUT /api/projects/{resource}/{name}/files/{path...}": writeFile,
		"POST /api/projects/{resource}/{name}/restart":        restart,
		"GET /api/projects/{resource}/{name}/app":             appState,
		"GET /api/projects/{resource}/{name}/log":             followLog,
		"GET /api/projects/{resource}/{name}/terminal":        terminal,
		"POST /api/projects/{resource}/{name}/preview":        preview,
		"DELETE /api/projects/{resource}/{name}/preview":      revoke,
	} {
		mux.HandleFunc(pattern, st.as(do))
	}
	// The cookie is of this site alone; this refuses what another site sends without it, too.
	protection := http.NewCrossOriginProtection()
	return protection.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		mux.ServeHTTP(w, r)
	}))
}

// action does what a person asks for. It writes its answer, or returns why there is none.
type action func(p *person, w http.ResponseWriter, r *http.Request) error

// as runs an action for the person whose session a request has.
func (st *studio) as(do action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := st.sessions.of(r)
		if err == nil {
			err = do(p, w, r)
		}
		if err != nil {
			refuse(w, err)
		}
	}
}

func (st *studio) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Workspace, Token string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, requestError("reading the login: "+err.Error()))
		return
	}
	cookie, p, err := st.sessions.login(r.Context(), in.Workspace, in.Token)
	if err != nil {
		refuse(w, err)
		return
	}
	setCookie(w, cookie)
	_ = whoami(p, w, r)
}

func (st *studio) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		st.sessions.logout(cookie.Value)
	}
	setCookie(w, "")
	w.WriteHeader(http.StatusNoContent)
}

func whoami(p *person, w http.ResponseWriter, _ *http.Request) error {
	return answer(w, map[string]string{"user": p.Name, "workspace": p.path})
}

// answer writes JSON.
func answer(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(body)
}

// requestError is an error of what a browser sent.
type requestError string

func (e requestError) Error() string { return string(e) }

// refuse writes an error with the status that fits it: that of kcp or of the data plane if it is theirs.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(err))
	_ = answer(w, map[string]string{"error": err.Error()}) // a browser that has gone reads nothing
}

func statusOf(err error) int {
	var (
		bad       requestError
		call      *client.CallError
		status    apierrors.APIStatus
		served    *client.NotServedError
		untrusted *client.UntrustedError
		tooLarge  *http.MaxBytesError
	)
	switch {
	case errors.Is(err, errNoSession):
		return http.StatusUnauthorized
	case errors.Is(err, errTooMany):
		return http.StatusServiceUnavailable
	case errors.As(err, &bad), errors.Is(err, errWorkspace), errors.Is(err, errNoToken):
		return http.StatusBadRequest
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.As(err, &call):
		return call.Code
	case errors.As(err, &served):
		return http.StatusConflict
	case errors.As(err, &untrusted):
		return http.StatusForbidden
	case errors.As(err, &status) && status.Status().Code >= 400:
		return int(status.Status().Code)
	}
	return http.StatusBadGateway
}
