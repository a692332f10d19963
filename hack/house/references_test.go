// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// namedPath is a path that begins with a folder of the repository, or a file of a kind that it has. One behind a
	// slash, as github.com/kcp-dev/kcp/pkg/x, is of another repository.
	namedPath = regexp.MustCompile(`(?:^|[^\w./:-])((?:apis|bench|client|cmd|dataplane|docs|e2e|examples|hack|install|pkg|providers|runner|templates|tenant)(?:/[\w.*-]+)+|[\w-]+(?:/[\w-]+)*\.(?:go|sh|yaml|md))\b`)
	// inPath is an identifier and the file or package that has it.
	inPath = regexp.MustCompile(`\b([a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*)\s+in\s+((?:[\w-]+/)+[\w-]+(?:\.go)?)\b`)
	// docLink is a link of Go's documentation to an identifier, to a member of a type, or to either of a package.
	docLink = regexp.MustCompile(`\[((?:[a-z]\w*\.)?[A-Z]\w*[a-z]\w*(?:\.[A-Z]\w*)?)\](?:[^(:\w]|$)`)
	code    = regexp.MustCompile("`([^`\n]+)`")
)

// Paths that texts name and that this repository does not have: files that commands write, and a form of paths.
var otherPaths = []string{"hack/test-all.result", "dist/sandbar.yaml", "apis/GROUP/VERSION"}

// TestTextsNameFilesAndIdentifiersThatExist keeps comments, the reasons of rights in install/rbac among them, and
// documents from leading to what was renamed. Decisions (docs/adr) name what there was in their time.
func TestTextsNameFilesAndIdentifiersThatExist(t *testing.T) {
	known := newKnown(t)
	for _, file := range texts(t) {
		if strings.HasPrefix(file, "docs/adr/0") {
			continue
		}
		for _, problem := range known.problems(t, file, read(t, file)) {
			t.Error(problem)
		}
	}
}

// known is what texts can name.
type known struct {
	// files and folders are by their paths, and bases are the names of files.
	files, folders, bases map[string]bool
	// names are the identifiers of a folder's Go files, with members as Type.Member, and words all that those of a file
	// or a folder have.
	names, words map[string]map[string]bool
}

func newKnown(t *testing.T) *known {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	k := &known{files: map[string]bool{}, folders: map[string]bool{}, bases: map[string]bool{}, names: map[string]map[string]bool{}, words: map[string]map[string]bool{}}
	for file := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		if !missing(string(file)) {
			k.add(string(file))
		}
	}
	for file := range k.files {
		if strings.HasSuffix(file, ".go") && !strings.Contains(file, "testdata/") {
			k.declare(t, file, read(t, file))
		}
	}
	return k
}

func (k *known) add(file string) {
	k.files[file], k.bases[path.Base(file)] = true, true
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		k.folders[dir] = true
	}
}

// declare notes the identifiers of a Go file.
func (k *known) declare(t *testing.T, file, source string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	dir := path.Dir(file)
	for _, at := range []string{dir, file} {
		if k.words[at] == nil {
			k.names[at], k.words[at] = map[string]bool{}, map[string]bool{}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			k.words[dir][id.Name], k.words[file][id.Name] = true, true
		}
		return true
	})
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				receiver, _ := rootOfType(d.Recv.List[0].Type)
				name = receiver + "." + name
			}
			k.names[dir][name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				k.declareSpec(dir, spec)
			}
		}
	}
}

func (k *known) declareSpec(dir string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			k.names[dir][id.Name] = true
		}
	case *ast.TypeSpec:
		k.names[dir][spec.Name.Name] = true
		var members *ast.FieldList
		switch kind := spec.Type.(type) {
		case *ast.StructType:
			members = kind.Fields
		case *ast.InterfaceType:
			members = kind.Methods
		default:
			return
		}
		for _, m := range members.List {
			for _, id := range m.Names {
				k.names[dir][spec.Name.Name+"."+id.Name] = true
			}
			if embedded, ok := rootOfType(m.Type); ok && len(m.Names) == 0 {
				k.names[dir][spec.Name.Name+"."+embedded] = true
			}
		}
	}
}

// rootOfType is the name of a type without its pointer, its package and its parameters.
func rootOfType(expr ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name, true
	case *ast.StarExpr:
		return rootOfType(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name, true
	case *ast.IndexExpr:
		return rootOfType(e.X)
	case *ast.IndexListExpr:
		return rootOfType(e.X)
	}
	return "", false
}

// problems returns what a text names that does not exist.
func (k *known) problems(t *testing.T, file, text string) (problems []string) {
	t.Helper()
	if !strings.HasSuffix(file, ".go") {
		for n, line := range strings.Split(text, "\n") {
			for _, quoted := range code.FindAllStringSubmatch(line, -1) {
				problems = append(problems, k.paths(file, n+1, quoted[1])...)
			}
		}
		return problems
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imports := importsOf(parsed)
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			line, said := fset.Position(comment.Pos()).Line, strings.TrimPrefix(comment.Text, "//")
			if strings.HasPrefix(strings.TrimSpace(said), "+") {
				continue // a marker, for a generator
			}
			problems = append(problems, k.paths(file, line, said)...)
			problems = append(problems, k.links(file, line, said, imports)...)
		}
		// An identifier and its place may stand on two lines.
		joined, _ := join(group.Text())
		for _, found := range inPath.FindAllStringSubmatch(joined, -1) {
			if words := k.words[found[2]]; words != nil && !words[found[1]] {
				problems = append(problems, fmt.Sprintf("%s:%d: there is no %s in %s", file, fset.Position(group.Pos()).Line, found[1], found[2]))
			}
		}
	}
	return problems
}

// importsOf are the folders of our packages that a file imports, by the names that it has for them.
func importsOf(file *ast.File) map[string]string {
	found := map[string]string{}
	for _, spec := range file.Imports {
		dir, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
		if !ours {
			continue
		}
		name := path.Base(dir)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		found[name] = dir
	}
	return found
}

// paths returns the paths of a text that lead nowhere: neither from the repository's folder, nor from the file's or one
// above it. The name of a file alone may be that of any.
func (k *known) paths(file string, line int, text string) (problems []string) {
	for _, found := range namedPath.FindAllStringSubmatch(text, -1) {
		name := found[1]
		if strings.Contains(name, "*") || slices.Contains(otherPaths, name) || !strings.Contains(name, "/") && k.bases[name] {
			continue
		}
		exists := k.files[name] || k.folders[name]
		if at := strings.LastIndex(name, "."); at > 0 && !exists {
			exists = k.names[name[:at]][name[at+1:]] // pkg/export.Bindings
		}
		for dir := path.Dir(file); !exists && dir != "."; dir = path.Dir(dir) {
			exists = k.files[path.Join(dir, name)] || k.folders[path.Join(dir, name)]
		}
		if !exists {
			problems = append(problems, fmt.Sprintf("%s:%d: there is no %s: name the file that has it now, from the folder of the repository", file, line, name))
		}
	}
	return problems
}

// links returns the links to identifiers that do not exist. Those to packages of others are not checked.
func (k *known) links(file string, line int, text string, imports map[string]string) (problems []string) {
	for _, found := range docLink.FindAllStringSubmatch(text, -1) {
		dir, name := path.Dir(file), found[1]
		if first, rest, dotted := strings.Cut(name, "."); dotted && first == strings.ToLower(first) {
			dir, name = imports[first], rest
		}
		if dir != "" && !k.names[dir][name] {
			problems = append(problems, fmt.Sprintf("%s:%d: there is no [%s]", file, line, found[1]))
		}
	}
	return problems
}

func TestWhatATextNamesIsLookedFor(t *testing.T) {
	k := &known{files: map[string]bool{}, folders: map[string]bool{}, bases: map[string]bool{}, names: map[string]map[string]bool{}, words: map[string]map[string]bool{}}
	const there = "package a\n\ntype Type struct{ Field int }\n\nfunc (t *Type) Method() { helpMe() }\n"
	for _, file := range []string{"pkg/a/there.go", "pkg/a/b/c.go", "docs/x.md", "install/manifests/kcp/1.yaml"} {
		k.add(file)
	}
	k.declare(t, "pkg/a/there.go", there)
	head := "package b\n\nimport \"" + module + "/pkg/a\"\n\n"
	for text, problem := range map[string]string{
		"// See pkg/a/there.go and b/c.go, c.go, docs/x.md.": "",
		"// See pkg/a/gone.go.":                              "there is no pkg/a/gone.go",
		"// See gone.go.":                                    "there is no gone.go",
		"// See b/gone.go.":                                  "there is no b/gone.go",
		"// See docs/gone.":                                  "there is no docs/gone",
		"// See pkg/a.Type.":                                 "",
		"// See k8s.io/kubernetes/pkg/kubelet/x.go.":         "",
		"// See pkg/*/x.go.":                                 "",
		"// +marker:paths=pkg/gone":                          "",
		"// helpMe in pkg/a/there.go, helpMe in pkg/a":       "",
		"// helpYou in\n// pkg/a/there.go":                   "there is no helpYou in pkg/a/there.go",
		"// A [a.Type] has [a.Type.Field], [a.Type.Method].": "",
		"// A [a.Gone] is not.":                              "there is no [a.Gone]",
		"// A [a.Type.Gone] is not.":                         "there is no [a.Type.Gone]",
		"// A [Gone] is not.":                                "there is no [Gone]",
		"// A [other.Gone] may be.":                          "",
		"// [A-Z] and [NAME] and [Text](link) link nothing.": "",
	} {
		problems := strings.Join(k.problems(t, "pkg/a/b/c.go", head+text+"\nvar _ a.Type\n"), "\n")
		if problem == "" && problems != "" || !strings.Contains(problems, problem) {
			t.Errorf("%s: %q, want %q", text, problems, problem)
		}
	}
	if got := k.problems(t, "docs/x.md", "`pkg/a/gone.go`, and pkg/a/prose.go is prose"); len(got) != 1 || !strings.HasPrefix(got[0], "docs/x.md:1: there is no pkg/a/gone.go") {
		t.Errorf("%q", got)
	}
}
