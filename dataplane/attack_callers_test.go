// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/limit"
)

// hungry is a pod that takes what comes, and on /big sends without end.
func hungry() http.Handler {
	big := make([]byte, 64<<10)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/big" {
			_, _ = io.Copy(io.Discard, r.Body)
			return
		}
		for {
			if _, err := w.Write(big); err != nil {
				return
			}
		}
	})
}

// readAnswer returns the code of the next answer; 0 when the connection ended first.
func readAnswer(conn net.Conn) int {
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

func TestSlowHeadersAreCut(t *testing.T) {
	s := newSiege(t, hungry(), func(s *setup) { s.opts.Limits.ReadHeaderTimeout = 300 * time.Millisecond })
	s.under(200*2+50, 64, func(context.Context) {
		many(200, func(i int) {
			conn := s.attacker(i)
			if conn == nil {
				return
			}
			defer conn.Close()
			// One byte at a time: each is progress, and none of it counts. The header stays below
			// its limit in bytes, which would end it too.
			head := authorized("POST", demo+"sync") + "X-Slow: " + strings.Repeat("x", 20000)
			for i := range len(head) {
				if _, err := io.WriteString(conn, head[i:i+1]); err != nil {
					return // cut, as it should be
				}
				if i%50 == 0 {
					_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
					if _, err := conn.Read(make([]byte, 1)); err != nil && !os.IsTimeout(err) {
						return
					}
				}
			}
			t.Error("a header that took 8 s was not cut after 300 ms")
		})
	})
}

func TestSlowBodiesAreCutAndHoldNoMoreThanTheirShare(t *testing.T) {
	s := newSiege(t, hungry(), func(s *setup) {
		s.opts.Limits.StallTimeout, s.opts.Limits.InstanceRequests = 300*time.Millisecond, 20
	})
	var stalled, refused, other atomic.Int64
	s.under(100*6, 64, func(context.Context) {
		many(100, func(i int) {
			conn := s.attacker(i)
			if conn == nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, authorized("POST", demo+"sync")+"Content-Length: 1000\r\n\r\nsome")
			switch readAnswer(conn) {
			case http.StatusRequestTimeout:
				stalled.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				other.Add(1)
			}
		})
	})
	if stalled.Load() == 0 || refused.Load() == 0 || other.Load() > 0 {
		t.Errorf("%d were cut, %d refused, %d neither", stalled.Load(), refused.Load(), other.Load())
	}
}

func TestSlowReadersAreCutAndHoldBoundedMemory(t *testing.T) {
	s := newSiege(t, hungry(), func(s *setup) {
		s.opts.Limits.StallTimeout = 300 * time.Millisecond
	})
	s.under(60*8, 96, func(context.Context) {
		many(60, func(i int) {
			conn := s.attacker(i)
			if conn == nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, authorized("GET", demo+"proxy/big")+"\r\n")
			_, _ = conn.Read(make([]byte, 1)) // it has begun; and now nothing is read
			eventually(t, "the reader that stopped is cut", func() bool {
				// Bytes that arrive fill the kernel's buffers; writing to a cut connection fails.
				_, err := io.WriteString(conn, "x")
				return err != nil
			})
		})
	})
}

func TestHeaderFloodsAreRefused(t *testing.T) {
	s := newSiege(t, hungry())
	long := strings.Repeat("x", 1<<20)
	for name, header := range map[string]string{
		"one huge header":         "X-Big: " + strings.Repeat("x", 4<<20),
		"many headers":            strings.Repeat("X-A: b\r\n", 500000),
		"a huge name":             strings.Repeat("x", 4<<20) + ": y",
		"one huge folded header":  "X-Big: y" + strings.Repeat("\r\n x", 1000000),
		"a huge request line":     "",
		"many cookies in a line":  "Cookie: " + strings.Repeat("a=b; ", 800000),
		"many empty header lines": strings.Repeat("A:\r\n", 1000000),
	} {
		t.Run(name, func(t *testing.T) {
			flood := []byte(header) // shared by all, not copied for each
			s.under(20*4, 64, func(context.Context) {
				many(20, func(i int) {
					conn := s.attacker(i)
					if conn == nil {
						return
					}
					defer conn.Close()
					path := demo + "sync"
					if header == "" {
						path += "/" + long
					}
					go func() {
						_, _ = io.WriteString(conn, authorized("POST", path))
						_, _ = conn.Write(flood)
						_, _ = io.WriteString(conn, "\r\n\r\n")
					}()
					if code := readAnswer(conn); code != http.StatusRequestHeaderFieldsTooLarge && code != 0 {
						t.Errorf("got %d", code)
					}
				})
			})
		})
	}
}

// Idle connections cost a goroutine and its buffers each, and end by themselves.
func TestIdleConnectionsAreBoundedAndEnd(t *testing.T) {
	const n = 3000
	if !raiseFiles(t, n*2+2000) {
		t.Skip("the process may not open enough files")
	}
	s := newSiege(t, hungry(), func(s *setup) {
		s.opts.Limits.IdleTimeout, s.opts.Limits.ReadHeaderTimeout = 2*time.Second, 5*time.Second
	})
	s.under(n*2+100, uint64(n/1000)*48, func(context.Context) {
		conns := make([]net.Conn, n)
		many(50, func(worker int) {
			for i := worker; i < n; i += 50 {
				if conns[i] = s.attacker(i); conns[i] != nil {
					_, _ = io.WriteString(conns[i], "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
				}
			}
		})
		many(50, func(worker int) {
			for i := worker; i < n; i += 50 {
				if conns[i] == nil {
					t.Error("a connection was not accepted")
					continue
				}
				if _, err := io.Copy(io.Discard, conns[i]); err != nil {
					t.Errorf("an idle connection was not ended: %v", err)
				}
				conns[i].Close()
			}
		})
	})
}

func TestTenThousandIdleConnectionsAreBounded(t *testing.T) {
	const n = 10000
	if !raiseFiles(t, n+2000) {
		t.Skip("the process may not open enough files")
	}
	s := newSiege(t, hungry(), func(s *setup) { s.opts.Limits.Connections = n + 100 })
	s.under(n+200, 160, func(context.Context) {
		defer s.holdIdle(n)()
		if held := s.scrape(); !regexp.MustCompile(`(?m)^sandbar_dataplane_connections 100\d\d$`).MatchString(held) {
			t.Error("not all connections are held at once")
		}
		for range 100 {
			s.work()
		}
	})
}

func TestOneAddressHoldsItsShareOfConnections(t *testing.T) {
	s := newSiege(t, hungry(), func(s *setup) {
		s.opts.Limits.Connections, s.opts.Limits.ConnectionsPerAddress = 40, 20
	})
	s.under(200, 16, func(context.Context) {
		var held, closed atomic.Int64
		conns := make(chan net.Conn, 100)
		many(100, func(int) {
			conn := s.attacker(0) // all from one address
			if conn == nil {
				return
			}
			conns <- conn
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
			if readAnswer(conn) == http.StatusOK {
				held.Add(1)
			} else {
				closed.Add(1)
			}
		})
		close(conns)
		for conn := range conns {
			conn.Close()
		}
		if held.Load() != 20 || closed.Load() != 80 {
			t.Errorf("%d connections were held and %d closed", held.Load(), closed.Load())
		}
	})
	if !strings.Contains(s.scrape(), `sandbar_dataplane_refusals_total{reason="connections_per_address"} 80`) {
		t.Error("closed connections are not counted")
	}
}

// One workspace at each of its limits does not keep another from its own.
func TestAWorkspaceAtItsLimitsLeavesOthersTheirs(t *testing.T) {
	for name, change := range map[string]func(*limit.Limits){
		"requests in flight": func(l *limit.Limits) { l.WorkspaceRequests = 5 },
		"rate":               func(l *limit.Limits) { l.WorkspaceRate, l.WorkspaceBurst = 200, 60 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				time.Sleep(5 * time.Millisecond)
			}), func(s *setup) { change(&s.opts.Limits) })
			s.pace = 10 * time.Millisecond // below the rate, which is the victim's too
			var refused, passed atomic.Int64
			s.under(400, 64, func(context.Context) {
				many(30, func(i int) {
					conn := s.attacker(i)
					if conn == nil {
						return
					}
					defer conn.Close()
					in := bufio.NewReader(conn)
					for range 30 {
						fmt.Fprintf(conn, "%s\r\n", authorized("POST", demo+"sync"))
						res, err := http.ReadResponse(in, nil)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, res.Body)
						if res.StatusCode == http.StatusTooManyRequests {
							refused.Add(1)
						} else {
							passed.Add(1)
						}
					}
				})
			})
			if refused.Load() == 0 || passed.Load() == 0 {
				t.Errorf("%d were refused and %d passed", refused.Load(), passed.Load())
			}
		})
	}
}
