// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

// Page is what a person sees instead of a preview.
type Page struct {
	Code int
	// Title is the heading; empty for one that follows from the code.
	Title string
	// Message says what happened and what to do.
	Message string
}

// page has no script, no link and nothing from elsewhere, and its policy forbids all of it: it
// is shown on the origin of an app that may be hostile.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem}h1{font-size:1.25rem}</style></head>
<body><main role="status"><h1>{{.Title}}</h1><p>{{.Message}}</p></main></body>
</html>
`))

func (p Page) title() string {
	if p.Title != "" {
		return p.Title
	}
	switch p.Code {
	case http.StatusUnauthorized:
		return "This preview is not open here"
	case http.StatusForbidden:
		return "You may not see this preview"
	case http.StatusNotFound:
		return "There is nothing here"
	case http.StatusConflict, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "This preview is not ready"
	}
	return http.StatusText(p.Code)
}

// sentence makes a sentence of a message of the API, which begins in lower case and has no end.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	return strings.ToUpper(message[:1]) + message[1:] + "."
}

// Write answers with the page.
func (p Page) Write(w http.ResponseWriter, r *http.Request) {
	var out bytes.Buffer
	// The template is constant and takes two strings.
	_ = page.Execute(&out, struct{ Title, Message string }{p.title(), sentence(p.Message)})
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(p.Code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(out.Bytes())
	}
}

// WantsPage tells whether a person waits for the answer, and not a program.
func WantsPage(h http.Header) bool {
	if _, ok := h["Sec-Fetch-Mode"]; ok && !Navigates(h) {
		return false
	}
	for _, value := range h["Accept"] {
		if strings.Contains(value, "text/html") {
			return true
		}
	}
	return false
}
