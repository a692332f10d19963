// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

const (
	// MaxManifest bounds a file with objects; an API server takes no request above 3 MiB.
	MaxManifest = 3 << 20
	// MaxManifestObjects bounds the objects of one file.
	MaxManifestObjects = 1000
)

// readObjects reads the objects of a file in YAML or JSON, or of the input if its name is "-". Lists are taken apart.
func readObjects(input io.Reader, name string) ([]*unstructured.Unstructured, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, &cli.UsageError{Err: fmt.Errorf("-f: %w", err)}
		}
		defer f.Close()
		input = f
	}
	text, err := io.ReadAll(io.LimitReader(input, MaxManifest+1)) //nolint:forbidigo // maxManifest is the limit
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(text) > MaxManifest {
		return nil, &cli.UsageError{Err: fmt.Errorf("-f %s has more than %d bytes", name, MaxManifest)}
	}
	all, err := parseObjects(text)
	if err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("-f %s: %w", name, err)}
	}
	return all, nil
}

func parseObjects(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(text)), 4096); ; {
		var fields map[string]any
		err := documents.Decode(&fields)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
		}
		if len(fields) == 0 {
			continue // an empty document between two separators
		}
		obj := &unstructured.Unstructured{Object: fields}
		if obj.GetKind() == "" || obj.GetAPIVersion() == "" {
			return nil, errors.New("an object has no apiVersion or no kind")
		}
		if !obj.IsList() {
			all = append(all, obj)
		} else if err := obj.EachListItem(func(item runtime.Object) error {
			all = append(all, item.(*unstructured.Unstructured)) //nolint:forcetypeassert // EachListItem gives no other
			return nil
		}); err != nil {
			return nil, err
		}
		if len(all) > MaxManifestObjects {
			return nil, fmt.Errorf("it has more than %d objects", MaxManifestObjects)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no objects")
	}
	return all, nil
}

// kindArgument is the word by which a manifest's kind is found in the workspace.
func kindArgument(obj *unstructured.Unstructured) string {
	gvk := obj.GroupVersionKind()
	if gvk.Group == "" {
		return gvk.Kind
	}
	return strings.Join([]string{gvk.Kind, gvk.Version, gvk.Group}, ".")
}

// writePrinter prints what a command has done, or the object as the server answered if -o asks for it.
type writePrinter struct{ objectPrinter }

// changePrinter is writePrinter for a command with the flags of addChangeFlags.
func (o *output) changePrinter() (*writePrinter, error) {
	if o.format == diffFormat {
		return &writePrinter{}, nil
	}
	return o.writePrinter()
}

func (o *output) writePrinter() (*writePrinter, error) {
	if o.format == "" {
		return &writePrinter{}, nil
	}
	p, err := o.printer()
	if err != nil {
		return nil, err
	}
	if p.columns() {
		return nil, &cli.UsageError{Err: fmt.Errorf("-o %s is for sandbar get: this command takes %s", o.format, o.formats)}
	}
	return &writePrinter{p}, nil
}

// wrote reports what was done to an object: "sandbox.sandbar.dev/web created".
func (p *writePrinter) wrote(out io.Writer, w *cli.WorkspaceObjects, obj *unstructured.Unstructured, did string, dryRun bool) error {
	if p.objectPrinter != nil {
		return p.print(out, Showing{kind: w.Of, items: []object.Item{{Unstructured: obj}}, one: true})
	}
	if dryRun {
		did += " (dry run: nothing was changed)"
	}
	if _, err := fmt.Fprintf(out, "%s/%s %s\n", w.Of, obj.GetName(), did); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
