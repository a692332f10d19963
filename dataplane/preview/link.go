// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

const (
	// LinkLifetime is how long a link can be opened after it was asked for. It can be opened
	// more than once: that would take memory to prevent, which replicas do not share.
	LinkLifetime = time.Minute
	// DefaultSession is how long a session lasts at most where the operator sets nothing. While it
	// lasts, nothing shows that its user has left a group or is no more: it is minutes.
	DefaultSession = 15 * time.Minute
	// MinSession is the shortest session that a request, or an operator, may ask for.
	MinSession = time.Minute
	// MaxSession is the longest.
	MaxSession = 12 * time.Hour
	// LeastLeft is how long a token must still last for a link: with less the browser would be back
	// for another one before it has shown anything.
	LeastLeft = 10 * time.Second
	// RenewGrace is how long after its end a session can still lead to where it is renewed.
	RenewGrace = 12 * time.Hour
	// MaxRenewURLBytes bounds that address. It is in the cookie.
	MaxRenewURLBytes = 512
	// MaxRequestBytes bounds the body of a request for a link.
	MaxRequestBytes = 4096
	// MaxPathBytes bounds the path that a link leads to.
	MaxPathBytes = 1024

	// ReservedPrefix is the one part of a preview's paths that is not the app's.
	ReservedPrefix = "/.sandbar/"
	// EnterPath is where links lead.
	EnterPath = ReservedPrefix + "enter"
	// LinkParameter is the query parameter that holds the sealed link.
	LinkParameter = "link"
)

// ErrRequest means that a request for a link cannot be met; the error says why and may be shown.
var ErrRequest = errors.New("the request for a preview link is not valid")

// Request is the body of a request for a link.
type Request struct {
	// Path is where the preview opens, with a query and a fragment if need be. Defaults to "/".
	Path string `json:"path,omitempty"`
	// ExpirationSeconds is how long the session lasts at most, counted from the request; the
	// operator's own limit and the end of the caller's token may end it earlier. Defaults to as long
	// as these allow.
	ExpirationSeconds int64 `json:"expirationSeconds,omitempty"`
	// RenewURL is the page to which a browser is redirected when its session has ended. Its server can
	// request another link. The parameter "path" with the page is added to its query. Defaults to
	// none.
	RenewURL string `json:"renewURL,omitempty"`
}

// Response tells of a link.
type Response struct {
	// URL is what the browser opens. Whoever has it, has the preview: do not log it.
	URL string `json:"url"`
	// ExpirationTimestamp is until when it can be opened.
	ExpirationTimestamp time.Time `json:"expirationTimestamp"`
	// SessionExpirationTimestamp is until when the preview can be used.
	SessionExpirationTimestamp time.Time `json:"sessionExpirationTimestamp"`
}

// ReadRequest reads the body of a request for a link; an empty one asks for the defaults. An
// error that is no ErrRequest comes from reading.
func ReadRequest(body io.Reader) (Request, error) {
	r := Request{Path: "/", ExpirationSeconds: int64(MaxSession / time.Second)}
	data, err := io.ReadAll(io.LimitReader(body, MaxRequestBytes+1)) //nolint:forbidigo // MaxRequestBytes
	if err != nil {
		return r, fmt.Errorf("reading the request: %w", err)
	}
	if len(data) > MaxRequestBytes {
		return r, fmt.Errorf("%w: it has more than %d bytes", ErrRequest, MaxRequestBytes)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return r, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil || decoder.More() {
		return r, fmt.Errorf(`%w: the body must be a JSON object with "path" and "renewURL" (strings) and "expirationSeconds" (a number), or empty`, ErrRequest)
	}
	if !isPath(r.Path) {
		return r, fmt.Errorf("%w: path must begin with one slash, not lead to %s, and have at most %d bytes", ErrRequest, ReservedPrefix, MaxPathBytes)
	}
	if least, most := int64(MinSession/time.Second), int64(MaxSession/time.Second); r.ExpirationSeconds < least || r.ExpirationSeconds > most {
		return r, fmt.Errorf("%w: expirationSeconds must be between %d and %d", ErrRequest, least, most)
	}
	if r.RenewURL != "" && !isRenewURL(r.RenewURL) {
		return r, fmt.Errorf("%w: renewURL must be an https URL, or an http URL of this machine (localhost), without user and fragment, of at most %d bytes", ErrRequest, MaxRenewURLBytes)
	}
	return r, nil
}

// isRenewURL reports whether a browser may be led to an address. What it leads to is for who asked
// for the link to choose, as the preview itself is: it must only be plain what it is. Plain HTTP is
// for command lines, which listen on the machine of their user.
func isRenewURL(s string) bool {
	if len(s) > MaxRenewURLBytes || !isVisible(s) {
		return false
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" {
		return false
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	return u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// RenewAt is where a browser is led that asks for a page when its session, or its link, has ended;
// empty for nowhere.
func (c *Claims) RenewAt(page string) string {
	u, err := url.Parse(c.Renew)
	if err != nil || c.Renew == "" {
		return ""
	}
	query := u.Query()
	query.Set("path", page)
	u.RawQuery = query.Encode()
	return u.String()
}

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isPath tells whether a redirect to a path stays on its host. "//other.example" and, since
// browsers read backslashes as slashes and drop tabs and line ends, "/\other.example" and
// "/<tab>/other.example" would not.
func isPath(s string) bool {
	if len(s) > MaxPathBytes || !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || strings.ContainsRune(s, '\\') {
		return false
	}
	if !isVisible(s) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && u.Host == "" && u.Scheme == "" && !IsReserved(u.Path)
}

// IsReserved tells whether a decoded path is not the app's.
func IsReserved(path string) bool {
	return path == strings.TrimSuffix(ReservedPrefix, "/") || strings.HasPrefix(path, ReservedPrefix)
}

// EnterURL is the URL of a sealed link on a preview's host.
func EnterURL(host, link string) string {
	return "https://" + host + EnterPath + "?" + LinkParameter + "=" + link
}
