// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

func TestAPanicIsFoundInALog(t *testing.T) {
	var caught bytes.Buffer
	func() {
		defer func() { _ = recover() }()
		ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&caught))))
		defer utilruntime.HandleCrashWithContext(ctx)
		panic("of a reconciliation")
	}()

	var served bytes.Buffer
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("of a request") }))
	s.Config.ErrorLog = log.New(&served, "", 0)
	s.Start()
	if res, err := s.Client().Get(s.URL); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	s.Close()

	for name, c := range map[string]struct {
		log  string
		want int
	}{
		"in a reconciliation":   {caught.String(), 1},
		"in a request":          {served.String(), 1},
		"of the process":        {"I1127 starting\npanic: runtime error: index out of range\n\ngoroutine 1 [running]:\n", 1},
		"of the Go runtime":     {"fatal error: concurrent map writes\n", 1},
		"a name that has panic": {"I1127 reconciled panic: true\nI1127 \"Created\" name=\"panic\"\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := Panics(c.log)
			if len(got) != c.want {
				t.Errorf("%d lines, want %d, of:\n%s", len(got), c.want, c.log)
			}
			for _, line := range got {
				if !strings.Contains(line, "panic") && !strings.Contains(line, "fatal error") {
					t.Errorf("the line %q tells of no panic", line)
				}
			}
		})
	}
}
