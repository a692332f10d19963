// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
)

// auditSchema names the meaning of the fields, which docs/observability.md explains. Fields may
// be added under the same name; one that changes its meaning needs another.
const auditSchema = "audit.sandbar.dev/v1"

const (
	// maxAuditGroups bounds the groups of a line: identity providers give some people
	// thousands. What was left out is counted in the line.
	maxAuditGroups = 100
	// maxAuditName bounds, in bytes, one name that an identity provider chose.
	maxAuditName = 1024
)

// Stages of a line. Each request has one with stageEnd; a stream has one with stageStart before.
const (
	StageStart = "start"
	StageEnd   = "end"
)

// auditUser is what a line says of the caller: the begin of a JSON object, made once per caller,
// or nothing with the reason in unknown.
type auditUser struct {
	json    []byte
	unknown string
	// caller is who lines are counted for; zero if unknown.
	caller access.CallerKey
}

// Reasons for which a line has no user.
const (
	UnknownNoIdentity = "no_identity" // none was given, or kcp does not know it
	unknownNotAsked   = "not_asked"   // refused before kcp was asked, or kcp was not reached
	UnknownNoAnswer   = "no_answer"   // kcp did not say who it is
	unknownBusy       = "busy"        // too many callers were asked about at once
)

func newAuditUser(user authenticationv1.UserInfo) auditUser {
	b := append([]byte(nil), `{"name":`...)
	b = appendJSON(b, truncated(user.Username))
	if user.UID != "" {
		b = appendJSON(append(b, `,"uid":`...), truncated(user.UID))
	}
	groups := user.Groups[:min(len(user.Groups), maxAuditGroups)]
	for i, group := range groups {
		if i == 0 {
			b = append(b, `,"groups":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendJSON(b, truncated(group))
	}
	if len(groups) > 0 {
		b = append(b, ']')
	}
	if omitted := len(user.Groups) - len(groups); omitted > 0 {
		b = strconv.AppendInt(append(b, `,"groupsOmitted":`...), int64(omitted), 10)
	}
	return auditUser{json: b, caller: access.CountedUser("", user).Key}
}

func truncated(s string) string { return s[:min(len(s), maxAuditName)] }

// auditRecord is what a line says, taken from the exchange while that is the handler's alone: the
// line may be written later, when kcp has said who the caller is.
type auditRecord struct {
	id, stage         string
	time              time.Time
	took              time.Duration
	route             locate.Route
	cluster, uid      string
	kubernetesVerb    string
	method            string
	authenticatedBy   string
	client, peer      string
	code              int
	bytesIn, bytesOut int64
	reason, traceID   string
	objectIsKnown     bool
	stream            bool
}

// newAuditID is unique, not secret.
func newAuditID() string {
	var b [16]byte
	for i := 0; i < len(b); i += 8 {
		v := rand.Uint64() //nolint:gosec // an identifier
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

func newAuditRecord(o *Outcome, stage string, now time.Time) auditRecord {
	verb, _ := access.ReviewVerb(o.Request, o.Route.Verb)
	client, peer := sourceIPs(o)
	return auditRecord{
		id: o.AuditID, stage: stage, time: now, took: o.Took, route: o.Route,
		cluster: o.Owner.Cluster, uid: string(o.Owner.UID), kubernetesVerb: verb, method: loggedMethod(o.Request.Method),
		authenticatedBy: o.AuthenticatedBy, client: client, peer: peer, code: o.Code, bytesIn: o.BytesIn, bytesOut: o.BytesOut,
		reason: o.Cause, traceID: o.TraceID, objectIsKnown: o.Route.IsWhole(), stream: o.IsStream,
	}
}

// sourceIPs are the address of the peer and, when that is a front proxy whose word is taken, before
// it the one that the proxy saw: the last of X-Forwarded-For. What stands before that one, and
// the whole header of anybody else, is what a caller likes to say.
func sourceIPs(o *Outcome) (client, peer string) {
	peer, _, err := net.SplitHostPort(o.Request.RemoteAddr)
	if err != nil || o.AuthenticatedBy != access.AuthenticatedByRequestHeader {
		return "", peer
	}
	forwarded := o.Request.Header["X-Forwarded-For"]
	if len(forwarded) == 0 {
		return "", peer
	}
	last := forwarded[len(forwarded)-1]
	ip, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:]))
	if err != nil {
		return "", peer
	}
	return ip.String(), peer
}

// appendTo encodes the line without its end, which the writer adds. There is no reflection on the
// way of every request; text that a caller chose is escaped by encoding/json's own rules.
func (a *auditRecord) appendTo(b []byte, user auditUser) []byte {
	b = append(b, `{"schema":"`+auditSchema+`","time":"`...)
	b = a.time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
	b = append(b, `","id":"`...)
	b = append(b, a.id...)
	b = append(b, `","stage":"`...)
	b = append(b, a.stage...)
	b = append(b, `","stream":`...)
	b = strconv.AppendBool(b, a.stream)
	b = append(b, `,"user":`...)
	if user.json == nil {
		b = append(b, `null`...)
		b = appendField(b, "userUnknown", user.unknown)
	} else {
		b = append(b, user.json...)
		b = append(appendField(b, "authenticatedBy", a.authenticatedBy), '}')
	}
	b = append(b, `,"sourceIPs":[`...)
	if a.client != "" {
		b = append(appendJSON(b, a.client), ',')
	}
	b = append(appendJSON(b, a.peer), ']')
	if a.objectIsKnown {
		b = a.appendObject(b)
	}
	b = appendField(b, "method", a.method)
	b = appendField(b, "kubernetesVerb", a.kubernetesVerb)
	if a.stage == StageEnd {
		b = strconv.AppendInt(append(b, `,"code":`...), int64(a.code), 10)
		b = strconv.AppendInt(append(b, `,"bytesIn":`...), a.bytesIn, 10)
		b = strconv.AppendInt(append(b, `,"bytesOut":`...), a.bytesOut, 10)
		b = strconv.AppendFloat(append(b, `,"durationSeconds":`...), a.took.Seconds(), 'f', 6, 64)
		b = appendField(b, "reason", a.reason)
	}
	return appendField(b, "traceId", a.traceID)
}

func (a *auditRecord) appendObject(b []byte) []byte {
	b = appendField(b, "workspace", a.route.Workspace)
	b = appendField(b, "cluster", a.cluster)
	if a.route.Catalogue != "" {
		return appendField(appendField(b, "verb", "catalogue"), "catalogue", a.route.Catalogue)
	}
	b = append(b, `,"object":{"group":`...)
	b = appendJSON(b, a.route.Group)
	b = appendField(b, "version", a.route.Version)
	b = appendField(b, "resource", a.route.Resource)
	b = appendField(b, "namespace", a.route.Namespace)
	b = appendField(b, "name", a.route.Name)
	b = appendField(b, "uid", a.uid)
	b = appendField(b, "component", a.route.Component)
	b = appendField(b, "port", a.route.Port)
	b = append(b, '}')
	return appendField(b, "verb", a.route.Verb)
}

// appendField appends a field, but none that is empty.
func appendField(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendJSON(b, value)
}

// appendJSON appends a JSON string. A line break or a quote in a name must not end the line or
// the string and begin another event.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			escaped, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...) // cannot be: a string always has an encoding
			}
			return append(b, escaped...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
