// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// AuditLine is a line as docs/observability.md describes it.
type AuditLine struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	ID     string    `json:"id"`
	Stage  string    `json:"stage"`
	Stream bool      `json:"stream"`
	User   *struct {
		Name            string   `json:"name"`
		UID             string   `json:"uid"`
		Groups          []string `json:"groups"`
		GroupsOmitted   int      `json:"groupsOmitted"`
		AuthenticatedBy string   `json:"authenticatedBy"`
	} `json:"user"`
	UserUnknown string   `json:"userUnknown"`
	SourceIPs   []string `json:"sourceIPs"`
	Workspace   string   `json:"workspace"`
	Cluster     string   `json:"cluster"`
	Object      *struct {
		Group     string `json:"group"`
		Version   string `json:"version"`
		Resource  string `json:"resource"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
		Component string `json:"component"`
		Port      string `json:"port"`
	} `json:"object"`
	Verb            string  `json:"verb"`
	Method          string  `json:"method"`
	KubernetesVerb  string  `json:"kubernetesVerb"`
	Code            int     `json:"code"`
	BytesIn         int64   `json:"bytesIn"`
	BytesOut        int64   `json:"bytesOut"`
	DurationSeconds float64 `json:"durationSeconds"`
	Reason          string  `json:"reason"`
	TraceID         string  `json:"traceId"`
	Dropped         uint64  `json:"dropped"`
}

// ReadAuditLines decodes an audit log. A line that is not JSON, or has a field that AuditLine lacks, is an
// error.
func ReadAuditLines(from io.Reader) ([]AuditLine, error) {
	var lines []AuditLine
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, auditQueueBytes)
	for scanner.Scan() {
		var line AuditLine
		decoder := json.NewDecoder(bytes.NewReader(scanner.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&line); err != nil {
			return lines, fmt.Errorf("line %d of the audit log: %w", len(lines)+1, err)
		}
		lines = append(lines, line)
	}
	return lines, scanner.Err()
}
