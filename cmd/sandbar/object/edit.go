// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// editOptions are the flags of sandbar edit.
type editOptions struct {
	output
	force  bool
	dryRun dryRun
}

func newEditCommand(s *target) *cobra.Command {
	var o editOptions
	cmd := &cobra.Command{
		Use:   "edit KIND NAME",
		Short: "Change an object in your editor",
		Long: `Open an object in your editor ($KUBE_EDITOR, $EDITOR, or vi), and change it when you have saved it and left the
editor. Nothing is changed if the text is as before, or empty.

An object that somebody has changed meanwhile is not changed; the error names their changes and the file that has
yours, and -o diff prints the three-way difference. --force-conflicts sets the fields that you have edited, and keeps
their other changes.`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.edit(cmd, args, &o) },
	}
	o.addChangeFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.force, "force-conflicts", false, "change the object also if it has changed meanwhile")
	o.dryRun.addFlag(cmd.Flags())
	return cmd
}

func (s *target) edit(cmd *cobra.Command, args []string, o *editOptions) error {
	a, err := cli.ParseObjectArgs(cmd, args)
	if err != nil {
		return err
	}
	if err := a.OneName(cmd); err != nil {
		return err
	}
	p, err := o.changePrinter()
	if err != nil {
		return err
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, a.Kind)
	if err != nil {
		return err
	}
	s.Name = a.Names[0]
	list, err := w.Get(cmd.Context(), w.Of, w.Namespace, s.Name, false)
	if err != nil {
		return err
	}
	known := list.Items[0].Unstructured
	before := editable(known)
	file, err := writeEditable(before, s.Name)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			_ = os.RemoveAll(filepath.Dir(file))
		}
	}()
	if err := runEditor(cmd, file); err != nil {
		return err
	}
	change, err := readEdited(before, file)
	if err == nil && len(change) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "Nothing was edited, and nothing is changed.")
		return nil
	}
	if err == nil {
		opts := object.WriteOptions{DryRun: bool(o.dryRun)}
		if !o.force {
			opts.Version = known.GetResourceVersion()
		}
		var changed *unstructured.Unstructured
		if changed, err = w.Patch(cmd.Context(), w.Of, known, change, opts); err == nil {
			return p.wrote(cmd.OutOrStdout(), w, changed, "edited", bool(o.dryRun))
		}
	}
	keep = true
	return &cli.KeptError{File: file, Err: showDiff(cmd.OutOrStdout(), o.format, err)}
}

// editable is what a person may edit of an object.
func editable(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj = obj.DeepCopy()
	obj.SetManagedFields(nil)
	unstructured.RemoveNestedField(obj.Object, "status")
	return obj
}

const editHint = `# Edit the object, save it and leave the editor. Text that is as before, or empty, changes nothing.
# Lines that begin with '#' do not count.
`

// writeEditable writes an object into a file of a new folder that only the person can read.
func writeEditable(obj *unstructured.Unstructured, name string) (file string, err error) {
	text, err := yaml.Marshal(obj.Object)
	if err != nil {
		return "", fmt.Errorf("writing the object: %w", err)
	}
	dir, err := os.MkdirTemp("", "sandbar-edit-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the file to edit: %w", err)
	}
	file = filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(file, append([]byte(editHint), text...), 0o600); err != nil {
		return "", fmt.Errorf("writing the file to edit: %w", err)
	}
	return file, nil
}

// runEditor opens a file in the person's editor, and returns when they have left it.
func runEditor(cmd *cobra.Command, file string) error {
	fallback := "vi"
	if runtime.GOOS == "windows" {
		fallback = "notepad"
	}
	named := cmp.Or(strings.TrimSpace(os.Getenv("KUBE_EDITOR")), strings.TrimSpace(os.Getenv("EDITOR")), fallback)
	words := editorCommand(named, file)
	ctx := context.WithoutCancel(cmd.Context()) // an interrupt is the editor's
	editor := exec.CommandContext(ctx, words[0], words[1:]...)
	editor.Stdin, editor.Stdout, editor.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := editor.Run(); err != nil {
		program, _, _ := strings.Cut(named, " --")
		return fmt.Errorf("the editor %s has failed, and nothing is changed (set EDITOR to choose another one): %w", program, err)
	}
	return nil
}

// editorCommand is the command that opens a file in an editor: a program whose path may have spaces, a program with
// options, or a line of the shell if it has quotes, as git and kubectl take it.
func editorCommand(editor, file string) []string {
	if info, err := os.Stat(editor); err == nil && !info.IsDir() {
		return []string{editor, file}
	}
	if quoted, ok := strings.CutPrefix(editor, `"`); ok && runtime.GOOS == "windows" {
		if program, options, ok := strings.Cut(quoted, `"`); ok && program != "" {
			return slices.Concat([]string{program}, strings.Fields(options), []string{file})
		}
	}
	if strings.ContainsAny(editor, `'"\`) && runtime.GOOS != "windows" {
		return []string{"sh", "-c", editor + ` "$@"`, editor, file}
	}
	return append(strings.Fields(editor), file)
}

// readEdited returns the merge patch of what was edited; an empty one if nothing was.
func readEdited(before *unstructured.Unstructured, file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading what was edited: %w", err)
	}
	edited, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("what was edited is not YAML: %w", err)
	}
	if edited = bytes.TrimSpace(edited); len(edited) == 0 || string(edited) == "null" {
		return nil, nil
	}
	var after unstructured.Unstructured
	if err := json.Unmarshal(edited, &after.Object); err != nil {
		return nil, errors.New("what was edited is not an object")
	}
	if after.GetName() != before.GetName() || after.GetKind() != before.GetKind() || after.GetAPIVersion() != before.GetAPIVersion() || after.GetNamespace() != before.GetNamespace() {
		return nil, errors.New("the kind, the name and the namespace of an object do not change: create another one instead")
	}
	original, err := json.Marshal(before.Object)
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	patch, err := jsonpatch.CreateMergePatch(original, edited)
	if err != nil {
		return nil, fmt.Errorf("comparing what was edited: %w", err)
	}
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, fmt.Errorf("comparing what was edited: %w", err)
	}
	return change, nil
}
