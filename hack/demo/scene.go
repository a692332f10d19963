// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/hack/local"
)

// scene is the tenant's side: alice, her workspace, her project.
type scene struct {
	say   *narrator
	stack *local.Stack
	admin shell // kcp's administrator
	alice shell // the tenant, with her own token only
	// checkout is where the command line is installed from.
	checkout shell
	file     string
	project  string
}

// newScene copies the sample project, so that the demo can edit it, and writes the file with
// the environment that a person needs to go on alone.
func newScene(say *narrator, stack *local.Stack, provider *local.Provider) (*scene, error) {
	dir := filepath.Join(stack.Dir, "demo")
	examples, err := filepath.Abs("examples")
	if err != nil {
		return nil, err
	}
	project := filepath.Join(dir, "project")
	if err := errors.Join(os.RemoveAll(project), os.MkdirAll(dir, 0o700), copyProject(filepath.Join(examples, "web"), project)); err != nil {
		return nil, fmt.Errorf("copying the sample project: %w", err)
	}
	auth := filepath.Join(dir, "auth")
	if err := os.WriteFile(auth, []byte("Authorization: Bearer "+stack.Token("alice")+"\n"), 0o600); err != nil {
		return nil, err
	}
	workspace, err := inWorkspace(stack, "alice", dir)
	if err != nil {
		return nil, err
	}
	bundle, err := withSystemRoots(provider.CAFile, dir)
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "bin")
	programs := bin + ":" + stack.Tools() + ":"
	vars := []string{
		"KUBECONFIG=" + workspace,
		"CURL_CA_BUNDLE=" + bundle,
		"AUTH=" + auth,
		// What the demo trusts, a person's own command line does not.
		"SANDBAR_CONFIG_DIR=" + filepath.Join(dir, "config"),
	}
	file := filepath.Join(dir, "env")
	text := "export " + strings.Join(vars, "\nexport ") + "\nexport PATH=" + programs + "$PATH" +
		"\nexport URL=$(kubectl get sandboxrunner web -o jsonpath='{.status.dataPlane.url}')\n"
	vars = append(vars, "PATH="+programs+os.Getenv("PATH"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	env := append(os.Environ(), vars...)
	return &scene{
		say: say, stack: stack, file: file, project: project,
		checkout: shell{say, filepath.Dir(examples), append(os.Environ(), "BINDIR="+bin)},
		admin:    shell{say, examples, append(os.Environ(), "ADMIN="+stack.Kubeconfig("kcp-admin"), "PATH="+stack.Tools()+":"+os.Getenv("PATH"))},
		alice:    shell{say, project, append(env, "EXAMPLES="+examples)},
	}, nil
}

func (s *scene) workspace(ctx context.Context) error {
	s.say.chapter("An administrator of kcp gives alice a workspace")
	server := strings.TrimSuffix(s.stack.KCPAdmin("root").Host, "/clusters/root")
	s.admin.env = append(s.admin.env, "KCP="+server)
	for _, command := range []string{
		"kubectl --kubeconfig $ADMIN --server $KCP/clusters/root apply -f tenant/workspace.yaml",
		"kubectl --kubeconfig $ADMIN --server $KCP/clusters/root wait --for=jsonpath='{.status.phase}'=Ready workspace/alice --timeout=180s",
		"kubectl --kubeconfig $ADMIN --server $KCP/clusters/root:alice apply -f tenant/admin.yaml",
	} {
		if err := s.admin.insist(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) sandbox(ctx context.Context) error {
	s.say.chapter("alice binds the API in her workspace and creates a sandbox")
	s.say.note("from here on everything happens with alice's own token; she has no credential of the runtime cluster")
	for _, command := range []string{
		"kubectl apply -f $EXAMPLES/tenant/apibinding.yaml",
		"kubectl wait --for=condition=InitialBindingCompleted apibinding/sandbar.dev --timeout=180s",
		"sandbar trust --yes",
		// As a manifest: alice's workspace may have it already, from an earlier demo.
		"sandbar apply -f $EXAMPLES/tenant/sandboxrunner.yaml",
	} {
		if err := s.alice.insist(ctx, command); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := s.alice.run(ctx, "sandbar wait sandboxrunner web --timeout 120s"); err != nil {
		return err
	}
	s.say.note("waited %v", time.Since(start).Round(10*time.Millisecond))
	return s.alice.run(ctx, "sandbar get sandboxrunners")
}

func (s *scene) push(ctx context.Context) error {
	s.say.chapter("She pushes her project")
	return s.alice.run(ctx, "sandbar sync web .")
}

func (s *scene) logs(ctx context.Context) error {
	s.say.chapter("She watches the log")
	lines, stop, err := s.alice.follow(ctx, "sandbar logs web -f --tail 1")
	if err != nil {
		return err
	}
	defer stop()
	if err := s.await(lines, "listening on"); err != nil {
		return err
	}
	// A program of hers has the verbs by their URLs.
	if err := s.alice.run(ctx, "curl -fsS -H @$AUTH \"$(sandbar get sandboxrunner web -o jsonpath='{.status.dataPlane.url}')/proxy/log?text=a+line+from+the+app\""); err != nil {
		return err
	}
	return s.await(lines, "a line from the app")
}

// await shows lines of the log until one holds the text.
func (s *scene) await(lines <-chan string, text string) error {
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return fmt.Errorf("the log ended before a line with %q", text)
			}
			s.alice.show("log | " + line)
			if strings.Contains(line, text) {
				return nil
			}
		case <-timeout.C:
			return fmt.Errorf("no line with %q in the log", text)
		}
	}
}

func (s *scene) preview(ctx context.Context) error {
	s.say.chapter("She opens the preview")
	s.say.note("a link, good for a minute, leads to a host name of the sandbox's own; curl does here what a browser does with it")
	for _, command := range []string{
		"curl -fsSL -c ../cookies \"$(sandbar open web --print)\" | grep -E '<h1>|process'",
	} {
		if err := s.alice.run(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// show opens the preview in the person's browser, if there is a person and a browser.
func (s *scene) show(ctx context.Context) error {
	program, err := browserOf(runtime.GOOS, os.Getenv)
	if err != nil || !s.say.terminal {
		return nil // without a browser the next commands say how to open it
	}
	s.say.chapter("The preview opens in your browser")
	s.say.note("it warns of the certificate until it trusts the demo's CA: `sandbar trust --browsers` shows how, and how to take that back")
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := s.alice.run(ctx, program+" \"$(sandbar open web --print)\""); err != nil {
		s.say.note("no browser could be started: %v", err)
	}
	return nil
}

// browserOf is the program that opens an address in the person's browser. A person has one where
// there is a display.
func browserOf(goos string, env func(string) string) (string, error) {
	program := "xdg-open"
	switch {
	case goos == "darwin":
		program = "open"
	case env("DISPLAY") == "" && env("WAYLAND_DISPLAY") == "":
		return "", errors.New("there is no display")
	}
	_, err := exec.LookPath(program)
	return program, err
}

func (s *scene) edit(ctx context.Context) error {
	s.say.chapter("She edits a file and sees it")
	for _, command := range []string{
		"echo \"Edited by alice at $(date +%T)\" > message.txt",
		"sandbar sync web .",
		"curl -fsSL -c ../cookies \"$(sandbar open web --print)\" | grep -E '<h1>|process'",
	} {
		if err := s.alice.run(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) restart(ctx context.Context) error {
	s.say.chapter("She restarts the process")
	if err := s.alice.run(ctx, "sandbar restart web"); err != nil {
		return err
	}
	return s.alice.insist(ctx, "sandbar exec web -- node --version")
}

// commandLine installs sandbar for the demo.
func (s *scene) commandLine(ctx context.Context) error {
	s.say.chapter("alice installs the command line")
	if err := s.checkout.run(ctx, "make -s install BINDIR=$BINDIR"); err != nil {
		return err
	}
	return s.alice.run(ctx, "kubectl sandbar version")
}

func (s *scene) next(stack string, took time.Duration) {
	s.say.chapter("Your turn")
	s.say.note("everything is still running; it took %v", took.Round(time.Second))
	fmt.Fprintf(s.say.out, "\n  Three commands to try next:\n")
	s.say.command("source " + s.file)
	s.say.command("sandbar open web      # what it serves, in your browser (sandbar trust --browsers shows how it trusts the demo's CA)")
	s.say.command("sandbar dev web " + s.project + "      # edit a file there and look again")
	s.say.note("`make install` puts sandbar on your own PATH; a project of yours: sandbar dev NAME DIR --create")
	down := "make down"
	if stack != "dev" {
		down += " STACK=" + stack
	}
	s.say.note("%s ends all of it", down)
}
