// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// MostEvents is how many events describe prints, the latest.
const MostEvents = 20

func newDescribeCommand(s *target) *cobra.Command {
	return &cobra.Command{
		Use:   "describe KIND NAME…",
		Short: "Show all that is known of objects: labels, versions, conditions, the start's steps, events",
		Long: `Show all that is known of the objects that are named, for a person: labels and annotations, which program
created and changed them, versions, state, conditions with their times, the steps of the start, and events. The
message of Ready has the last lines of a container that does not stay up. Programs use sandbar get -o json.`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.describe(cmd, args) },
	}
}

func (s *target) describe(cmd *cobra.Command, args []string) error {
	a, err := cli.ParseObjectArgs(cmd, args)
	if err != nil {
		return err
	}
	if len(a.Names) == 0 {
		return &cli.UsageError{Err: fmt.Errorf("describe takes a KIND and names; sandbar get %s lists them", a.Kind)}
	}
	w, err := s.ObjectsOf(cmd.Context(), cmd, a.Kind)
	if err != nil {
		return err
	}
	for i, name := range a.Names {
		s.Name = name
		d, err := w.Describe(cmd.Context(), w.Of, w.Namespace, name)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if i > 0 {
			text.WriteByte('\n')
		}
		Describe(&text, w.Of, d, time.Now())
		if _, err := cmd.OutOrStdout().Write(text.Bytes()); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

// Describe prints a description. Each text of the object is made safe for a terminal where it is printed.
func Describe(out *bytes.Buffer, k object.Kind, d *object.Description, now time.Time) {
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	field := func(name string, values ...string) {
		for i, value := range values {
			if i > 0 {
				name = ""
			} else {
				name += ":"
			}
			fmt.Fprintf(lines, "%s\t%s\n", name, termsafe.Line(value)) // of a provider of any kind, or of a server
		}
	}
	obj := d.Object
	field("Name", obj.GetName())
	if k.Namespaced {
		field("Namespace", obj.GetNamespace())
	}
	field("Kind", fmt.Sprintf("%s (%s)", k.Name, k.Resource.GroupVersion()))
	field("UID", string(obj.GetUID()))
	field("Created", by(moment(obj.GetCreationTimestamp().Time, now), d.Creator))
	if d.User != "" {
		field("Creator", d.User)
	}
	if d.Updated.Manager != "" {
		field("Updated", by(moment(d.Updated.Time, now), d.Updated.Manager))
	}
	if gone := obj.GetDeletionTimestamp(); gone != nil {
		field("Deleting", "since "+moment(gone.Time, now))
	}
	field("Labels", pairsOf(obj.GetLabels())...)
	field("Annotations", pairsOf(obj.GetAnnotations())...)
	field("Version", obj.GetResourceVersion())
	field("Generation", generationOf(d))
	describeInstance(field, d, now)
	_ = lines.Flush() // into memory
	describeSteps(out, d)
	describeComponents(out, d.Object)
	describeWorkloads(out, d.Object)
	describeEndpoints(out, d.Object)
	describeConditions(out, d, now)
	describeEvents(out, d, now)
}

// describeInstance prints what instances have and other kinds do not.
func describeInstance(field func(string, ...string), d *object.Description, now time.Time) {
	if !object.IsInstance(d.Columns) {
		return
	}
	field("State", strings.Split(strings.TrimRight(object.StateOf(d.Object), "\n"), "\n")...)
	field("Template", termsafe.Line(TemplateOf(d.Object)))
	if id := statusAs[sandbarv1alpha1.SandboxGroupStatus](d.Object).SandboxID; id != "" {
		field("Sandbox ID", id)
	}
	describeRouting(field, d.Object)
	field("Idle", idleFor(d.Object, now))
	field("Expires", expiryOf(d.Object, now))
	if suspension := d.Status.Suspension; suspension != nil {
		field("Suspended", fmt.Sprintf("%s, since %s; kept: %s", suspension.Cause, moment(suspension.Since.Time, now), cmp.Or(strings.Join(suspension.Kept, ", "), cli.None)))
	}
	if plane := d.Status.DataPlane; plane != nil {
		field("URL", termsafe.Line(plane.URL))
		field("Verbs", cmp.Or(termsafe.Line(strings.Join(plane.Verbs, ", ")), cli.None))
	}
}

// expiryOf is the shutdown time of an instance, and what happens then.
func expiryOf(obj *unstructured.Unstructured, now time.Time) string {
	end, ok := TimeAt(obj, "spec", "lifecycle", "shutdownTime")
	if !ok {
		return never
	}
	policy, _, _ := unstructured.NestedString(obj.Object, "spec", "lifecycle", "shutdownPolicy")
	text := fmt.Sprintf("in %s (%s)", expiresIn(obj, now), end.Local().Format(time.RFC3339))
	if !end.After(now) {
		text = moment(end, now)
	}
	if policy != "" {
		text += ", and then: " + termsafe.Line(policy)
	}
	return text
}

func generationOf(d *object.Description) string {
	generation, observed := d.Object.GetGeneration(), d.Status.ObservedGeneration
	switch {
	case observed == 0:
		return strconv.FormatInt(generation, 10)
	case observed < generation:
		return fmt.Sprintf("%d (the status is still of %d)", generation, observed)
	}
	return fmt.Sprintf("%d (observed)", generation)
}

func moment(at, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return fmt.Sprintf("%s (%s ago)", at.Local().Format(time.RFC3339), duration.HumanDuration(max(0, now.Sub(at))))
}

func by(text, manager string) string {
	if manager == "" {
		return text
	}
	return text + " by " + termsafe.Line(manager)
}

// pairsOf are labels or annotations, one for each line.
func pairsOf(pairs map[string]string) []string {
	if len(pairs) == 0 {
		return []string{cli.None}
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		lines = append(lines, termsafe.Line(key+"="+pairs[key]))
	}
	return lines
}

// describeSteps prints how an instance started.
func describeSteps(out io.Writer, d *object.Description) {
	start := d.Status.Start
	if start == nil {
		return
	}
	how := start.Type
	if start.Set != nil {
		how += " out of the set " + start.Set.Name
	}
	if start.Reason != "" {
		how += ", because: " + start.Reason
	}
	fmt.Fprintf(out, "\nStart: %s\n", termsafe.Line(how))
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, step := range d.Steps {
		took := tookOf(step)
		if i == 0 {
			took = step.Time.Local().Format(time.RFC3339)
		}
		fmt.Fprintf(lines, "  %s\t%s\n", termsafe.Line(step.Name), took)
	}
	_ = lines.Flush()
}

// tookOf is how long a step took, with the digits that are known. Two times in one second are less than a second apart.
func tookOf(step object.Step) string {
	switch {
	case step.Resolution < time.Second:
		return "+" + step.Took.Round(time.Millisecond).String()
	case step.Took == 0:
		return "<1s"
	}
	return "+" + step.Took.String()
}

func describeConditions(out io.Writer, d *object.Description, now time.Time) {
	if len(d.Status.Conditions) == 0 {
		return
	}
	fmt.Fprintln(out, "\nConditions:")
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "  TYPE\tSTATUS\tSINCE\tREASON\tMESSAGE")
	for _, c := range d.Status.Conditions {
		fmt.Fprintf(lines, "  %s\t%s\t%s\t%s\t%s\n", termsafe.Line(c.Type), termsafe.Line(string(c.Status)),
			since(c.LastTransitionTime.Time, now), termsafe.Line(c.Reason), oneLine(c.Message))
	}
	_ = lines.Flush()
}

func describeEvents(out io.Writer, d *object.Description, now time.Time) {
	switch {
	case d.EventsErr != nil:
		fmt.Fprintf(out, "\nEvents: %s\n", termsafe.Line(d.EventsErr.Error()))
		return
	case len(d.Events) == 0:
		return
	}
	events := d.Events[max(0, len(d.Events)-MostEvents):]
	fmt.Fprintln(out, "\nEvents:")
	if left := len(d.Events) - len(events); left > 0 {
		fmt.Fprintf(out, "  (%d earlier ones are left out)\n", left)
	}
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "  AGE\tTYPE\tREASON\tMESSAGE")
	for _, e := range events {
		fmt.Fprintf(lines, "  %s\t%s\t%s\t%s\n", ageOf(e, now), termsafe.Line(e.Type), termsafe.Line(e.Reason), oneLine(e.Message))
	}
	_ = lines.Flush()
}

// ageOf is when an event happened last, and how often.
func ageOf(e corev1.Event, now time.Time) string {
	age := since(object.EventTime(e), now)
	count := e.Count
	if e.Series != nil {
		count = max(count, e.Series.Count)
	}
	if count > 1 {
		age += fmt.Sprintf(" (x%d)", count)
	}
	return age
}

// oneLine is the first line of a message; describe prints the whole message of Ready as the state.
func oneLine(message string) string {
	line, rest, more := strings.Cut(strings.TrimSpace(message), "\n")
	if more && rest != "" {
		line += " …"
	}
	return termsafe.Line(line)
}
