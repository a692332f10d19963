// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"testing"
)

// The texts are those of kcp 0.32.
func TestAServersErrorNamesTheFieldAndNotTheWholeObject(t *testing.T) {
	for given, want := range map[string]string{
		` "" is invalid: patch: Invalid value: "{\"kind\":\"Sandbox\",\"spec\":{\"x\":1}}": strict decoding error: unknown field "spec.x"`:    `unknown field "spec.x"`,
		`failed to create typed patch object (/web; sandbar.dev/v1alpha1, Kind=Sandbox): .spec.x: field not declared in schema`:               `spec.x: field not declared in schema`,
		`Sandbox in version "v1alpha1" cannot be handled as a Sandbox: strict decoding error: unknown field "spec.x", unknown field "spec.y"`: `unknown field "spec.x", unknown field "spec.y"`,
		`Sandbox.sandbar.dev "web" is invalid: spec.replicas: Invalid value: "string"`:                                                        `Sandbox.sandbar.dev "web" is invalid: spec.replicas: Invalid value: "string"`,
	} {
		cause := errors.New(given)
		if err := tidy(cause); err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("%s\ngot  %s\nwant %s", given, err, want)
		}
	}
}
