// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// What a provider can write as its address is what clients call: install's test of the same table, with the CRD, is
// TestAnAddressThatClientsRefuseCannotBeWritten. Nothing is sent here: no server has these names.
func TestTheAddressesOfDataPlanesThatClientsRefuse(t *testing.T) {
	text, err := os.ReadFile("../apis/v1alpha1/testdata/data-plane-urls.json")
	if err != nil {
		t.Fatal(err)
	}
	var table []struct {
		Name, URL string
		Refused   []string
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	for _, row := range table {
		t.Run(row.Name, func(t *testing.T) {
			l := newLiar(t, func(int) string { return strings.TrimSuffix(row.URL, "/") + ownPath }) // as the controller writes it
			cfg := &rest.Config{Host: l.kcp.URL + "/clusters/root:me", BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(l.kcp)}}
			// The person trusts the address in question, unless it cannot be trusted.
			c, err := client.New(cfg, client.DataPlane{URL: row.URL})
			if err == nil {
				defer c.Close()
				_, err = c.Instance(t.Context(), client.SandboxRunners, "default", "web")
			}
			if (err != nil) != slices.Contains(row.Refused, "client") {
				t.Errorf("the client says %v", err)
			}
		})
	}
}
