// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/doctor"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/client/workspacetest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestDoctorSaysWhatToDo(t *testing.T) {
	var plane *httptest.Server
	plane = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(clitest.CertificateOf(plane)) }))
	defer plane.Close()
	// bound is a workspace that is bound to a provider with the data plane.
	bound := func(claims ...any) *workspacetest.Workspace {
		k := &workspacetest.Workspace{Annotations: map[string]any{
			"extra.apis.kcp.io/dataplane-url": plane.URL, "extra.apis.kcp.io/dataplane-ca-sha256": clitest.HashOf(clitest.CertificateOf(plane)),
		}}
		k.Has("sandbar.dev", "root:sandbar", "sandbar.dev", append(claims, given("", "events", "Accepted", "create"))...)
		return k
	}
	reviews := given("authorization.k8s.io", "subjectaccessreviews", "Accepted", "create")
	viewer := bound(reviews)
	viewer.NotAllowed = []string{"create sandboxrunners", "create sandboxrunners/exec"}
	var golden strings.Builder
	for _, c := range []struct {
		name, args string
		workspace  *workspacetest.Workspace
		trusts     bool
	}{
		{"all is well", "doctor", bound(reviews), true},
		{"for programs", "doctor -o json", bound(reviews), true},
		{"nothing is bound", "doctor", &workspacetest.Workspace{}, false},
		{"the data plane is not trusted", "doctor", bound(reviews), false},
		{"an older binding", "doctor", bound(), true},
		{"a viewer", "doctor", viewer, true},
		{"another namespace", "doctor -n none", bound(reviews), true},
		{"a credential that has expired, for programs", "doctor -o json", answering(http.StatusUnauthorized, unauthorized), true},
		{"a server that acts on terminals", "doctor", answering(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"\u001b[2J\u202e","code":403}`), true},
		{"another context", "doctor --context none", bound(reviews), true},
		{"another format", "doctor -o yaml", bound(reviews), true},
	} {
		w := atStart(t, c.workspace)
		if c.trusts {
			if err := (session.TrustStore{Path: w.Trust}).Add(client.DataPlane{URL: plane.URL, CABundle: clitest.CertificateOf(plane)}); err != nil {
				t.Fatal(err)
			}
		}
		code, stdout, stderr := w.Run(t, strings.Fields(c.args)...)
		said := strings.NewReplacer(w.URL, "https://kcp.example.com", plane.URL, "https://sandboxes.example.com").Replace(stdout + stderr)
		fmt.Fprintf(&golden, "# %s\n$ sandbar %s\n%s(exit code %d)\n\n", c.name, c.args, said, code)
	}
	clitest.CompareGolden(t, "doctor.golden", golden.String())
}

// A problem without a remedy leaves a person where they were.
func TestEveryProblemOfADoctorHasARemedy(t *testing.T) {
	file, err := parser.ParseFile(gotoken.NewFileSet(), "../../../client/doctor/doctor.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	problems := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Problem" {
			return true
		}
		problems++
		problem := doctor.Problem(spec.Names[0].Name)
		if remedies[problem] == "" {
			t.Errorf("%s has no remedy", problem)
		}
		return true
	})
	if problems == 0 || problems != len(remedies) {
		t.Errorf("%d problems have %d remedies", problems, len(remedies))
	}
}
