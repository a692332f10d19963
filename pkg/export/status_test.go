// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import "testing"

func TestAStatusPatchClearsWhatTheLaterStatusLeavesOut(t *testing.T) {
	type status struct {
		Hash     string   `json:"hash,omitempty"`
		Problems []string `json:"problems,omitempty"`
		Ready    int      `json:"ready"`
	}
	for name, test := range map[string]struct {
		before, after status
		want          string
	}{
		"a text and a list that are gone are null": {status{Hash: "a", Problems: []string{"x"}}, status{}, `{"status":{"hash":null,"problems":null}}`},
		"a number is written when it is zero":      {status{Ready: 2}, status{}, `{"status":{"ready":0}}`},
		"what is the same is left out":             {status{Hash: "a", Ready: 1}, status{Hash: "a", Ready: 2}, `{"status":{"ready":2}}`},
		"what is new is written":                   {status{Ready: 1}, status{Ready: 1, Problems: []string{"x"}}, `{"status":{"problems":["x"]}}`},
		"of the first status zeros are written":    {status{}, status{Problems: []string{"x"}}, `{"status":{"problems":["x"],"ready":0}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := StatusPatch(test.before, test.after)
			if err != nil || string(got) != test.want {
				t.Errorf("%s, %v; want %s", got, err, test.want)
			}
		})
	}
}
