// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// accessLog writes a line for each request; nil writes none.
type accessLog struct {
	mu sync.Mutex
	to io.Writer
}

// accessLine is a line. It has no query and no header: these hold credentials, and the IDs of other people's sandboxes.
type accessLine struct {
	Time     time.Time `json:"time"`
	Port     string    `json:"port"`
	Client   string    `json:"client"`
	Protocol string    `json:"protocol"`
	Method   string    `json:"method"`
	Host     string    `json:"host"`
	Path     string    `json:"path"`
	To       string    `json:"to"`
	Address  string    `json:"address"`
	Code     int       `json:"code"`
	Bytes    int64     `json:"bytes"`
	Seconds  float64   `json:"seconds"`
	Cause    string    `json:"cause,omitempty"`
}

func (l *accessLog) write(x *exchange, took time.Duration) {
	if l == nil {
		return
	}
	to := toBaseline
	if x.copied {
		to = toCopy
	}
	line, err := json.Marshal(accessLine{
		Time: x.began.UTC(), Port: x.port.String(), Client: x.client.address, Protocol: x.r.Proto, Method: x.r.Method, Host: x.r.Host,
		Path: x.r.URL.EscapedPath(), To: to, Address: x.address, Code: x.status, Bytes: x.sent, Seconds: took.Seconds(), Cause: x.cause,
	})
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(append(line, '\n'))
}
