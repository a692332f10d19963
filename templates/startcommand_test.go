// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	krocel "github.com/kubernetes-sigs/kro/pkg/cel"
	"github.com/kubernetes-sigs/kro/pkg/graph/parser"
)

// startCommand returns what kro and Kubernetes make of the variable SANDBAR_START_COMMAND of a SandboxRunner.
func startCommand(t *testing.T, spec map[string]any) string {
	t.Helper()
	pod := dig(resources(t, get(t, "sandbox-runner"))["runner"], "spec", "template", "spec").(map[string]any)
	var field string
	for _, variable := range pod["containers"].([]any)[0].(map[string]any)["env"].([]any) {
		if v := variable.(map[string]any); v["name"] == "SANDBAR_START_COMMAND" {
			field = v["value"].(string)
		}
	}
	standalone, err := parser.IsStandaloneExpression(field)
	if err != nil || !standalone {
		t.Fatalf("kro does not take it for one expression: %v: %s", err, field)
	}
	env, err := krocel.DefaultEnvironment(krocel.WithResourceIDs([]string{"schema"}))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(strings.TrimSuffix(strings.TrimPrefix(field, "${"), "}"))
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := program.Eval(map[string]any{"schema": map[string]any{"spec": spec}})
	if err != nil {
		t.Fatal(err)
	}
	text := value.Value().(string)
	if strings.Contains(strings.ReplaceAll(text, "$$", ""), "$") {
		t.Errorf("Kubernetes may expand a dollar sign of %s", text)
	}
	return strings.ReplaceAll(text, "$$", "$")
}

// TestViteGetsItsAddressAsOptions: the default command of the toolchain node starts a project of Vite, which
// reads no PORT, unchanged. It leaves alone what the project sets, and every other development server.
func TestViteGetsItsAddressAsOptions(t *testing.T) {
	tools := t.TempDir()
	for name, text := range map[string]string{
		// What the project's script is; nothing without a package.json, as of the real one.
		"node": "#!/bin/sh\n[ -f package.json ] && cat package.json\n",
		"npm":  "#!/bin/sh\necho npm \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const options = " -- --host --port 3000 --strictPort"
	command := startCommand(t, map[string]any{"toolchain": "node"})
	for script, want := range map[string]string{
		"vite":                              options,
		"vite dev":                          options,
		"vite dev --open":                   options,
		"vite serve":                        options,
		"vite --mode staging":               options,
		"vite --host":                       " -- --port 3000 --strictPort",
		"vite dev --host 0.0.0.0":           " -- --port 3000 --strictPort",
		"vite --port 8080":                  "",
		"vite --host --port 3000":           "",
		"vite build --watch":                "",
		"vitest":                            "",
		"vite & tsc --watch":                "",
		"tsc; vite":                         "",
		"vite | cat":                        "",
		"next dev":                          "",
		"concurrently \"vite\" \"nodemon\"": "",
		"node server.mjs":                   "",
		"undefined":                         "",
		"":                                  "",
	} {
		t.Run(script, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
			cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + tools + ":/usr/bin:/bin", "PORT=3000"}
			if script != "" {
				if err := os.WriteFile(filepath.Join(cmd.Dir, "package.json"), []byte(script), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != "npm run dev"+want {
				t.Errorf("%v: it runs %q", err, got)
			}
		})
	}
}

// TestAStartCommandOfOnesOwnIsTakenAsItIs: no default is added to it.
func TestAStartCommandOfOnesOwnIsTakenAsItIs(t *testing.T) {
	const own = `exec vite "$HOME" $(PORT) $$ 'x'`
	for _, toolchain := range []string{"node", "python", "go"} {
		if got := startCommand(t, map[string]any{"toolchain": toolchain, "startCommand": own}); got != own {
			t.Errorf("%s: it runs %s", toolchain, got)
		}
	}
	if got := startCommand(t, map[string]any{"toolchain": "go"}); got != "exec go run ." {
		t.Errorf("go: it runs %s", got)
	}
}
