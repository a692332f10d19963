// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// MaxTemplateFile bounds the file of a template or of columns.
const MaxTemplateFile = 1 << 20

// The formats of -o are kubectl's, with table for the one that is meant without -o.
const (
	documentFormats = "json, yaml, name, jsonpath=…, go-template=… and custom-columns=…, the last three also with -file=FILE"
	outputFormats   = "table, wide, " + documentFormats
)

// output is how a command prints objects.
type output struct {
	format       string
	noHeaders    bool
	showLabels   bool
	labelColumns []string
	managed      bool
	// formats are those of the command, for the message about another one.
	formats string
}

func (o *output) addFlags(fs *pflag.FlagSet) {
	o.formats = documentFormats
	fs.StringVarP(&o.format, "output", "o", "", "print the object: "+documentFormats)
	fs.BoolVar(&o.managed, "show-managed-fields", false, "keep metadata.managedFields in json and yaml")
}

// addChangeFlags adds the flags of a command that changes an object in a version that the person knows.
func (o *output) addChangeFlags(fs *pflag.FlagSet) {
	o.addFlags(fs)
	o.formats += "; and " + diffFormat
	fs.Lookup("output").Usage += "; " + diffUsage
}

func (o *output) addTableFlags(fs *pflag.FlagSet) {
	o.addFlags(fs)
	o.formats = outputFormats
	fs.Lookup("output").Usage = "how to print: " + outputFormats
	fs.BoolVar(&o.noHeaders, "no-headers", false, "leave out the line with the names of the columns")
	fs.BoolVar(&o.showLabels, "show-labels", false, "add a column with all labels")
	fs.StringSliceVarP(&o.labelColumns, "label-columns", "L", nil, "labels that get a column each, for example -L env,team")
}

// Showing has the objects to print.
type Showing struct {
	kind    object.Kind
	items   []object.Item
	columns []metav1.TableColumnDefinition
	// one reports whether a person asked for this object and not for a list.
	one bool
	// namespaces reports whether the objects are of several namespaces.
	namespaces bool
	// deleted reports whether this is the last state of objects that are gone.
	deleted bool
}

// objectPrinter prints objects. The same one is used for all of a watch.
type objectPrinter interface {
	print(out io.Writer, s Showing) error
	// columns reports whether it needs those that the server prints.
	columns() bool
	// says reports whether a person reads the output, so that an empty list needs a sentence.
	says() bool
}

// printer returns the printer of the format, or a mistake in the call.
func (o *output) printer() (objectPrinter, error) {
	for _, key := range o.labelColumns {
		if len(validation.IsQualifiedName(key)) > 0 {
			return nil, &cli.UsageError{Err: fmt.Errorf("-L %q is not the key of a label, such as env or example.com/team", key)}
		}
	}
	format, argument, hasArgument := strings.Cut(o.format, "=")
	if hasArgument && strings.HasSuffix(format, "-file") {
		text, err := readTemplate(argument)
		if err != nil {
			return nil, &cli.UsageError{Err: fmt.Errorf("-o %s: %w", o.format, err)}
		}
		format, argument = strings.TrimSuffix(format, "-file"), text
	}
	if hasArgument != withArgument[format] && format != "" {
		return nil, o.unknown()
	}
	p, err := o.printerOf(format, argument)
	if err != nil {
		return nil, &cli.UsageError{Err: fmt.Errorf("-o %s: %w", o.format, err)}
	}
	if p == nil {
		return nil, o.unknown()
	}
	return p, nil
}

var withArgument = map[string]bool{"jsonpath": true, "go-template": true, "custom-columns": true}

func (o *output) unknown() error {
	return &cli.UsageError{Err: fmt.Errorf("-o %q: the formats are %s", o.format, o.formats)}
}

func (o *output) printerOf(format, argument string) (objectPrinter, error) {
	switch format {
	case "", "table", "wide":
		return newTablePrinter(o, format == "wide"), nil
	case "name":
		return namePrinter{}, nil
	case "custom-columns":
		return parseCustomColumns(argument, o.noHeaders)
	}
	if o.showLabels || len(o.labelColumns) > 0 {
		return nil, errors.New("--show-labels and -L add columns to a table; this format has none")
	}
	switch format {
	case "json":
		return o.document(&printers.JSONPrinter{}), nil
	case "yaml":
		return o.document(&printers.YAMLPrinter{}), nil
	case "jsonpath":
		p, err := printers.NewJSONPathPrinter(argument)
		if err != nil {
			return nil, err
		}
		p.AllowMissingKeys(true)
		return documentPrinter{p}, nil
	case "go-template":
		p, err := printers.NewGoTemplatePrinter([]byte(argument))
		if err != nil {
			return nil, err
		}
		p.AllowMissingKeys(true)
		return documentPrinter{p}, nil
	}
	return nil, nil //nolint:nilnil // another format
}

func (o *output) document(p printers.ResourcePrinter) objectPrinter {
	if o.managed {
		return documentPrinter{p}
	}
	return documentPrinter{&printers.OmitManagedFieldsPrinter{Delegate: p}}
}

func readTemplate(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxTemplateFile+1)) //nolint:forbidigo // maxTemplateFile is the limit
	if err == nil && len(text) > MaxTemplateFile {
		err = fmt.Errorf("the file has more than %d bytes", MaxTemplateFile)
	}
	return string(text), err
}

// documentPrinter prints one object, or one list of all, for programs.
type documentPrinter struct{ printers.ResourcePrinter }

func (documentPrinter) columns() bool { return false }
func (documentPrinter) says() bool    { return false }

func (p documentPrinter) print(out io.Writer, s Showing) error {
	var object runtime.Object
	if s.one {
		object = s.items[0].Unstructured
	} else {
		items := make([]any, 0, len(s.items))
		for _, item := range s.items {
			items = append(items, item.Object)
		}
		object = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items,
		}}
	}
	var text bytes.Buffer
	if err := p.PrintObj(object, &text); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return cli.WriteDocument(out, text.Bytes())
}

// namePrinter prints KIND.GROUP/NAME, which other commands take.
type namePrinter struct{}

func (namePrinter) columns() bool { return false }
func (namePrinter) says() bool    { return true }

func (namePrinter) print(out io.Writer, s Showing) error {
	for _, item := range s.items {
		if _, err := fmt.Fprintf(out, "%s/%s\n", s.kind, item.GetName()); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}
