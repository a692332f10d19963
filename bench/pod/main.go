// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command pod is what the benchmarks run in a sandbox: a server that costs as little as net/http
// can, so that what is measured is the way to it.
//
//	GET /bytes/N   N bytes
//	GET /ws        an upgrade; bytes come back as they are
//	GET /source    an upgrade; sends zeros until the peer has gone
//	GET /idle      an upgrade; waits until the peer has gone
//
// and, for the benchmark of logs, on the standard output:
//
//	POST /lines/N?every=10ms  N lines, each "line NUMBER NANOSECONDS"
//	POST /flood/N?from=M      N lines of 200 bytes, each "line NUMBER …" counted from M, at once
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/rawconn"
)

const largest = 64 << 20

// zeros are what bodies and sources consist of; one for all, so that requests allocate nothing.
var zeros [256 << 10]byte

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /bytes/{n}", serveBytes)
	mux.HandleFunc("GET /ws", switched(echo))
	mux.HandleFunc("GET /source", switched(func(conn net.Conn) {
		for {
			if _, err := conn.Write(zeros[:]); err != nil {
				return
			}
		}
	}))
	mux.HandleFunc("GET /idle", switched(func(conn net.Conn) { _, _ = io.ReadFull(conn, make([]byte, 1)) }))
	mux.HandleFunc("POST /lines/{n}", printing(printLines))
	mux.HandleFunc("POST /flood/{n}", printing(flood))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", ":"+os.Getenv("PORT"))
	if err == nil {
		err = server.Serve(listener{l})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// listener gives connections that cost Go's scheduler nothing.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return rawconn.Of(conn), nil
}

func serveBytes(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil || n < 0 || n > largest {
		http.Error(w, "how many?", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	for n > 0 {
		wrote, err := w.Write(zeros[:min(n, 32<<10)])
		if err != nil {
			return
		}
		n -= wrote
	}
}

// switched answers 101 and hands the connection over.
func switched(then func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if n := buffered.Reader.Buffered(); n > 0 {
			early, _ := buffered.Reader.Peek(n)
			if _, err := conn.Write(early); err != nil {
				return
			}
		}
		then(conn)
	}
}

// echo is nothing but reads and writes: what a byte takes is to be the way's, not the pod's.
func echo(conn net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// printing answers when all is written.
func printing(write func(out io.Writer, n int, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil || n < 0 {
			http.Error(w, "how many?", http.StatusBadRequest)
			return
		}
		if err := write(os.Stdout, n, r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

func printLines(out io.Writer, n int, r *http.Request) error {
	every, err := time.ParseDuration(r.URL.Query().Get("every"))
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		if _, err := fmt.Fprintf(out, "line %d %d\n", i, time.Now().UnixNano()); err != nil {
			return err
		}
	}
	return nil
}

func flood(out io.Writer, n int, r *http.Request) error {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(out, 64<<10)
	for i := from; i < from+n; i++ {
		if _, err := fmt.Fprintf(buffered, "line %-13d %180s\n", i, "x"); err != nil {
			return err
		}
	}
	return buffered.Flush()
}
