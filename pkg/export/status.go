// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"encoding/json"
	"fmt"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// StatusPatch returns the merge patch that turns one status into another. A field that the later status
// leaves out is null in it: a merge patch of the later status alone would keep the field, which would then be
// found to differ, and be written, at every look. A zero status is one that was never written: all fields of the first
// one are in the patch, also those that are zero, which kubectl would show as empty.
func StatusPatch(before, after any) ([]byte, error) {
	if v := reflect.ValueOf(before); !v.IsValid() || v.IsZero() {
		before = struct{}{}
	}
	was, err := json.Marshal(map[string]any{"status": before})
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	is, err := json.Marshal(map[string]any{"status": after})
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	patch, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return nil, fmt.Errorf("comparing the status: %w", err)
	}
	return patch, nil
}
