// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestHelpLeavesOutTheFlagsThatACommandDoesNotTake(t *testing.T) {
	w := newWorld(t)
	for command, shown := range map[string]bool{
		"get": false, "label": false, "apply": false, "login": false, "top": false, "claim": false, "templates": false,
		"logs": true, "exec": true, "cp": true, "suspend": true, "doctor": true,
	} {
		_, stdout, _ := w.Run(t, command, "--help")
		if !strings.Contains(stdout, "--kubeconfig string") {
			t.Errorf("%s --help prints\n%s", command, stdout)
		}
		for _, flag := range []string{"--resource string", "--component string"} {
			if strings.Contains(stdout, flag) != shown {
				t.Errorf("the help of %s has %s: %t, want %t", command, flag, !shown, shown)
			}
		}
	}
}
