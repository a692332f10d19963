// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestTheMarkIsInTheEnvironmentAlone(t *testing.T) {
	one, ok := New([]string{"-x", "a b", ""}, false)
	other, _ := New([]string{"-x"}, false)
	if got, want := one.Marked(), []string{"env", "SANDBAR_EXEC=" + one.mark, "-x", "a b", ""}; !ok || !slices.Equal(got, want) {
		t.Errorf("it runs %q, want %q", got, want)
	}
	if len(one.mark) < 26 || one.mark == other.mark { // 26 letters of base32 are 130 bits
		t.Errorf("the marks are %q and %q", one.mark, other.mark)
	}
	if _, ok := New([]string{"a=b", "c"}, false); ok {
		t.Error("env would take a=b for a variable")
	}
	if got := one.End(1500 * time.Millisecond); got[0] != "sh" || !slices.Equal(got[3:], []string{"sandbar", "SANDBAR_EXEC=" + one.mark, "15", "20"}) {
		t.Errorf("it ends with %q", got)
	}
}

func TestTheEndIsWhatTheContainerSays(t *testing.T) {
	for name, c := range map[string]struct {
		answer []byte
		want   error
	}{
		"none is left":           {join(message(1, ""), exited(0)), nil},
		"some are left":          {join(message(1, ""), exited(1)), ErrLeft},
		"there is no shell":      {join(message(1, ""), notStarted("sh")), ErrNoShell},
		"its shell cannot run":   {exited(126), ErrNoShell},
		"the runtime failed":     {message(3, `{"status":"Failure","reason":"InternalError","message":"task not found"}`), errNoAnswer},
		"a status that is none":  {message(3, "{"), errNoAnswer},
		"a connection that ends": {message(1, "x"), io.EOF},
		"too much":               {message(1, strings.Repeat("x", 2*maxAnswer)), errNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			for pieces, r := range map[string]io.Reader{"at once": bytes.NewReader(c.answer), "byte by byte": iotest.OneByteReader(bytes.NewReader(c.answer))} {
				if err := AwaitEnd(r); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%s: got %v, want %v", pieces, err, c.want)
				}
			}
		})
	}
}

func TestTheRuntimesWordsForAProgramThatIsNotThere(t *testing.T) {
	for words, want := range map[string]bool{
		`OCI runtime exec failed: exec failed: unable to start container process: exec: "env": executable file not found in $PATH: unknown`:             true,
		`OCI runtime exec failed: exec failed: unable to start container process: exec: "env": permission denied: unknown`:                              true,
		"executable file `env` not found in $PATH: No such file or directory":                                                                           true,
		`OCI runtime exec failed: executing processes for container: error finding executable "env" in PATH [/bin]: no such file or directory: unknown`: true,
		`exec: "sh": executable file not found in $PATH: unknown`:                                                                                       false,
		"failed to load task: no running task found: not found":                                                                                         false,
		"the environment was not found": false,
		`exec: "env": out of memory`:    false,
	} {
		if got := missing[program].MatchString(words); got != want {
			t.Errorf("%s: %v", words, got)
		}
	}
}
