// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// npmFrameworks are the rows of docs/frameworks.md whose projects npm makes, by the commands of the page.
func npmFrameworks(t *testing.T) map[string]framework {
	t.Helper()
	return map[string]framework{
		// Git would make a first commit, which needs a name and an address of this machine's user.
		"next": npmInstall(npmTemplate{name: "next", create: documented(t, "create-next-app", "16.4.3", "--disable-git")},
			framework{path: "/", file: "app/page.tsx", text: "To get started", hot: "[HMR] connected", more: nextMore}),
		"sveltekit": npmInstall(npmTemplate{name: "sveltekit", create: documented(t, "sv", "0.17.1")},
			framework{path: "/", file: "src/routes/+page.svelte", text: "Welcome to SvelteKit", hot: "[vite] connected.", more: svelteForm}),
	}
}

const frameworksPage = "../docs/frameworks.md"

// documented is the command of docs/frameworks.md with which a tool of npm makes a project, in the version that
// the page has in its table, and in the folder "project".
func documented(t *testing.T, tool, version string, more ...string) []string {
	t.Helper()
	page, err := os.ReadFile(frameworksPage)
	if err != nil {
		t.Fatal(err)
	}
	if in := "(`" + tool + "` " + version + ")"; !strings.Contains(string(page), in) {
		t.Fatalf("%s does not say that %s was tried", frameworksPage, in)
	}
	found := regexp.MustCompile(`(?m)^\$ npx ` + tool + `(?:@latest)?( .*) && cd my-app$`).FindSubmatch(page)
	if found == nil {
		t.Fatalf("%s has no command with npx %s", frameworksPage, tool)
	}
	args := strings.Fields(strings.Replace(string(found[1]), " my-app", " project", 1))
	return append(append([]string{tool + "@" + version}, args...), more...)
}

// nextMore: a Server Action, which compares the Origin of its form with the host that the app was asked for, and
// the overlay, which Next serves to no domain that is not allowed.
func nextMore(t *testing.T, s *terminal, p *tab, notes *screen) {
	t.Helper()
	s.writeAt("app/send", "page.tsx", `import { redirect } from "next/navigation";

async function send() {
  "use server";
  redirect("/received");
}

export default function Page() {
  return <form id="form" action={send}><button>send</button></form>;
}
`)
	s.writeAt("app/received", "page.tsx", "export default function Page() {\n  return <h1>received</h1>;\n}\n")
	sendForm(p, "/send")
	nextOrigins(t, s, p)
	// What Next writes into the project by itself must not conflict with edits here.
	if strings.Contains(notes.String(), "conflict") {
		t.Errorf("dev said %s", notes)
	}
}

// svelteForm: a form action, which answers on the page of the form.
func svelteForm(t *testing.T, s *terminal, p *tab, _ *screen) {
	t.Helper()
	s.writeAt("src/routes/send", "+page.server.ts", "export const actions = { default: async () => ({ received: true }) };\n")
	s.writeAt("src/routes/send", "+page.svelte", `<script lang="ts">
	let { form } = $props();
</script>

<form id="form" method="POST"><button>send</button></form>
{#if form?.received}received{/if}
`)
	sendForm(p, "/send")
}

// sendForm opens a page of the tab's origin until it has a form, and sends the form as a press of its button does.
func sendForm(p *tab, path string) {
	p.t.Helper()
	page := eval[string](p, "location.origin") + path
	eventually(p.t, path+" has a form", func() error {
		p.visit(page)
		found, err := try[bool](p, "document.getElementById('form') !== null && document.readyState === 'complete'")
		if err == nil && !found {
			err = errors.New("it has none")
		}
		return err
	})
	eval[bool](p, "document.getElementById('form').requestSubmit(), true")
	until(p, "document.body.innerText.includes('received')", true)
}

// nextOrigins: Next answers the overlay on *.localhost, as this stack's previews are, and on an operator's domain
// with the setting of docs/frameworks.md alone.
func nextOrigins(t *testing.T, s *terminal, p *tab) {
	t.Helper()
	const overlay = "fetch(%q, {method: 'POST', headers: %s, " +
		"body: JSON.stringify({frames: [], isServer: false, isEdgeServer: false, isAppDirectory: true})})" +
		".then(r => r.status === 403 ? 'refused' : r.ok ? 'answered' : String(r.status))"
	until(p, fmt.Sprintf(overlay, "/__nextjs_original-stack-frames", "{}"), "answered")

	post := fmt.Sprintf(overlay, "http://localhost:3000/__nextjs_original-stack-frames", "{origin: 'https://sb-x.preview.example.com'}") + ".then(console.log)"
	want := func(want string) {
		t.Helper()
		eventually(t, "a request of the overlay is "+want, func() error {
			if _, got, errs := s.run("exec", "web", "--", "node", "-e", post); got != want+"\n" {
				return fmt.Errorf("it is %q: %s", got, errs)
			}
			return nil
		})
	}
	want("refused")
	page, err := os.ReadFile(frameworksPage)
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`(?s)// (next\.config\.\w+)\n([^\n]*nextConfig[^\n]* = \{\n)(.*?)  // …\n`).FindStringSubmatch(string(page))
	if setting == nil {
		t.Fatalf("%s has no configuration of Next", frameworksPage)
	}
	change(t, filepath.Join(s.dir, setting[1]), setting[2], setting[2]+setting[3])
	want("answered")
}
