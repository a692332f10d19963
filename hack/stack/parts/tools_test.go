// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"strings"
	"testing"
)

func TestMissingToolsAreNamedWhereTheyCannotBeInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no apt-get
	err := Ensure(t.Context(), []Tool{{"sh-that-is-not", "some-package"}, {"/dev/null", "present"}, {"/not/there", "another"}})
	if err == nil || !strings.Contains(err.Error(), "some-package another") || strings.Contains(err.Error(), "present") {
		t.Errorf("error %v, want one that names the two missing packages", err)
	}
	if err := Ensure(t.Context(), []Tool{{"/dev/null", "present"}}); err != nil {
		t.Error(err)
	}
}

func TestDownloadedDir(t *testing.T) {
	tests := map[string]struct{ answer, dir, refused string }{
		"a module":          {`{"Path": "x", "Dir": "/m/x"}`, "/m/x", ""},
		"one that is not":   {`{"Path": "x", "Error": "no such version"}`, "", "no such version"},
		"what is no answer": {`oops`, "", "reading the answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir, err := downloadedDir(tt.answer)
			if dir != tt.dir || (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("got %q, %v", dir, err)
			}
		})
	}
}
