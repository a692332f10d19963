// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
)

func TestAKubeconfigOfTheEnvironmentThatIsNotThereIsNamed(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	var s Target
	if _, _, err := s.Workspace(); err == nil || !strings.HasPrefix(err.Error(), "there is no file /nowhere/kubeconfig, which $KUBECONFIG names") {
		t.Errorf("it says: %v", err)
	}
}
