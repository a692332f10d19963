// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

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
	// headerAuditID tells a caller which line is theirs, so that they can be helped.
	headerAuditID = "Audit-Id"
)

// Stages of a line. Each request has one with stageEnd; a stream has one with stageStart before.
const (
	stageStart = "start"
	stageEnd   = "end"
)

// auditUser is what a line says of the caller: the begin of a JSON object, made once per caller,
// or nothing with the reason in unknown.
type auditUser struct {
	json    []byte
	unknown string
}

// Reasons for which a line has no user.
const (
	unknownNoIdentity = "no_identity" // none was given, or kcp does not know it
	unknownNotAsked   = "not_asked"   // refused before kcp was asked, or kcp was not reached
	unknownNoAnswer   = "no_answer"   // kcp did not say who it is
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
	return auditUser{json: b}
}

func truncated(s string) string { return s[:min(len(s), maxAuditName)] }

// auditRecord is what a line says, taken from the exchange while that is the handler's alone: the
// line may be written later, when kcp has said who the caller is.
type auditRecord struct {
	id, stage         string
	time              time.Time
	took              time.Duration
	route             route
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

func newAuditRecord(x *exchange, stage string, now time.Time, took time.Duration) auditRecord {
	verb, _ := reviewVerb(x.request, x.route.verb)
	client, peer := sourceIPs(x)
	return auditRecord{
		id: x.auditID, stage: stage, time: now, took: took, route: x.route,
		cluster: x.id.Cluster, uid: string(x.id.UID), kubernetesVerb: verb, method: loggedMethod(x.request.Method),
		authenticatedBy: x.authenticatedBy, client: client, peer: peer, code: x.code(), bytesIn: x.bytesIn.Load(), bytesOut: x.bytesOut.Load(),
		reason: x.cause, traceID: x.traceID, objectIsKnown: x.route.isWhole(), stream: x.isStream,
	}
}

// sourceIPs are the address of the peer and, when that is a front proxy whose word is taken, before
// it the one that the proxy saw: the last of X-Forwarded-For. What stands before that one, and
// the whole header of anybody else, is what a caller likes to say.
func sourceIPs(x *exchange) (client, peer string) {
	peer, _, err := net.SplitHostPort(x.request.RemoteAddr)
	if err != nil || x.authenticatedBy != authenticatedByRequestHeader {
		return "", peer
	}
	forwarded := x.request.Header["X-Forwarded-For"]
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

// isWhole tells whether a path named everything that it must. The router checks each name, so
// nothing of a path that was refused gets into a line.
func (r route) isWhole() bool {
	return r.workspace != "" && (r.catalogue || r.resource != "" && r.name != "" && r.verb != "" && r.namespace != "")
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
	if a.stage == stageEnd {
		b = strconv.AppendInt(append(b, `,"code":`...), int64(a.code), 10)
		b = strconv.AppendInt(append(b, `,"bytesIn":`...), a.bytesIn, 10)
		b = strconv.AppendInt(append(b, `,"bytesOut":`...), a.bytesOut, 10)
		b = strconv.AppendFloat(append(b, `,"durationSeconds":`...), a.took.Seconds(), 'f', 6, 64)
		b = appendField(b, "reason", a.reason)
	}
	return appendField(b, "traceId", a.traceID)
}

func (a *auditRecord) appendObject(b []byte) []byte {
	b = appendField(b, "workspace", a.route.workspace)
	b = appendField(b, "cluster", a.cluster)
	if a.route.catalogue {
		return appendField(b, "verb", "catalogue")
	}
	b = append(b, `,"object":{"group":`...)
	b = appendJSON(b, a.route.group)
	b = appendField(b, "version", a.route.version)
	b = appendField(b, "resource", a.route.resource)
	b = appendField(b, "namespace", a.route.namespace)
	b = appendField(b, "name", a.route.name)
	b = appendField(b, "uid", a.uid)
	b = appendField(b, "component", a.route.component)
	b = appendField(b, "port", a.route.port)
	b = append(b, '}')
	return appendField(b, "verb", a.route.verb)
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
