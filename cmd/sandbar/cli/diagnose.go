// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// MostOthers is how many instances are named when one is not there.
	MostOthers = 5
	// MostCompared is how many are looked at for a similar name.
	MostCompared = 500
)

// DiagnosedError is an error in the words of what a person did, after the workspace was asked why.
type DiagnosedError struct {
	// Text is what a person reads, and Err the error that it is about.
	Text string
	Err  error
}

// Error implements error.
func (d *DiagnosedError) Error() string { return d.Text }

// Unwrap returns the error that it explains.
func (d *DiagnosedError) Unwrap() error { return d.Err }

// Diagnosed makes each command say why it failed where the workspace knows.
func (s *Target) Diagnosed(commands []*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		run := c.RunE
		c.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if err == nil || cmd.Context().Err() != nil {
				return err
			}
			if text := s.Diagnose(cmd.Context(), args, err); text != "" {
				return &DiagnosedError{text, err}
			}
			return err
		}
	}
	return commands
}

// Diagnose returns why something failed, as far as the workspace tells, and else nothing: whatever
// fails here, the first error is the better one.
func (s *Target) Diagnose(ctx context.Context, args []string, failed error) string {
	var certificate *tls.CertificateVerificationError
	if errors.As(failed, &certificate) {
		return s.otherCA(ctx)
	}
	if text := s.DeniedBy(failed); text != "" {
		return text
	}
	var unbound *object.NotBoundError
	if errors.As(failed, &unbound) {
		return s.nowhere(unbound.Group)
	}
	var call *client.CallError
	if errors.As(failed, &call) && call.Cause == sandbarv1alpha1.CauseSuspended && s.Name != "" {
		return fmt.Sprintf("%s is suspended: run %s", s.Name, s.resumeCommand())
	}
	gone := errors.As(failed, &call) && call.Code == http.StatusNotFound && !call.Sandbox
	if !gone && !apierrors.IsNotFound(failed) || len(args) == 0 {
		return ""
	}
	k, err := s.Kind()
	if err != nil {
		return ""
	}
	w := whereabouts{Kind: k, name: s.Name, alone: s.Resource == "" && s.reference != "" && s.reference == s.Name}
	if w.name == "" && !s.AsArgument {
		w.name = args[0]
	}
	if isNotServed(failed) {
		return w.notServed()
	}
	if w.name == "" {
		return "" // the command is not about one object
	}
	if gone {
		return w.gone(ctx, s.UID, call.Verb)
	}
	return w.missing(ctx)
}

// resumeCommand is the command line that resumes the instance.
func (s *Target) resumeCommand() string {
	line := "sandbar resume " + s.written()
	if s.InPath != "" {
		line += " --workspace " + s.InPath
	}
	if s.Overrides.Context.Namespace != "" {
		line += " -n " + s.Overrides.Context.Namespace
	}
	return line
}

// written is the instance as a person writes it: as they did, unless --resource has its kind.
func (s *Target) written() string {
	resource, err := s.Meant()
	if s.Resource == "" || resource == client.SandboxRunners || err != nil {
		return cmp.Or(s.reference, s.Name)
	}
	return object.Reference{Kind: object.Kind{Resource: resource}.Word(), Name: s.Name}.String()
}

// DeniedBy says that the workspace has refused the credential, if it has; else nothing.
func (s *Target) DeniedBy(failed error) string {
	if apierrors.IsForbidden(failed) || apierrors.IsUnauthorized(failed) {
		return s.denied(failed)
	}
	return ""
}

// denied is for a workspace that refuses the credential of the kubeconfig: it says which workspace and whose
// credential that are, all of it from the person's own file.
func (s *Target) denied(failed error) string {
	if text := refusedByPolicy(failed); text != "" {
		return text
	}
	k, err := s.Kind()
	if err != nil {
		return ""
	}
	who := "the kubeconfig's credential"
	if user := s.credential(); user != "" {
		who = "the kubeconfig's user " + termsafe.Line(user)
	}
	if apierrors.IsUnauthorized(failed) {
		return fmt.Sprintf("%s does not know %s: the credential may have expired; log in again with sandbar login, or choose another --context", PlaceOf(k.Config.Host), who)
	}
	check := "--context and -n"
	if path, from := s.otherWorkspace(); path != "" {
		check = from + " and -n (kcp denies a workspace that does not exist, too)"
	} else if !leadsIntoWorkspace(k.Config.Host) {
		check = "--context and -n, name a workspace with --workspace (the server's address has none)"
	}
	return fmt.Sprintf("%s denies %s access to the namespace %s, or to what the command needs there (%s): check %s, or ask the owner of the workspace for the right; sandbar doctor shows more",
		PlaceOf(k.Config.Host), who, termsafe.Line(k.Namespace), termsafe.Line(failed.Error()), check)
}

// leadsIntoWorkspace reports whether a cluster's address leads to a workspace, and not to a server as a whole.
func leadsIntoWorkspace(address string) bool { return strings.Contains(address, "/clusters/") }

// nowhere is for a server that has no kinds of a group because its address names no workspace. It is empty in a workspace.
func (s *Target) nowhere(group string) string {
	k, err := s.Kind()
	if err != nil || leadsIntoWorkspace(k.Config.Host) {
		return ""
	}
	return noWorkspace(k.Config.Host, group)
}

func noWorkspace(address, group string) string {
	return fmt.Sprintf("%s has no kinds of %s, and its address names no workspace: name yours with --workspace, or choose another --context",
		PlaceOf(address), termsafe.Line(group))
}

// PlaceOf names the workspace that a cluster's address leads to.
func PlaceOf(address string) string {
	server, path, ok := strings.Cut(address, "/clusters/")
	if !ok {
		return "the server " + termsafe.Line(address)
	}
	return fmt.Sprintf("the workspace %s of %s", termsafe.Line(strings.TrimRight(path, "/")), termsafe.Line(server))
}

// otherCA is for a data plane whose certificate is not of the CA that the person trusted, if the workspace
// names another CA by now.
func (s *Target) otherCA(ctx context.Context) string {
	w, err := s.Open()
	if err != nil {
		return ""
	}
	offers, err := w.Offers(ctx)
	if err != nil {
		return "" // the workspace's own certificate, perhaps
	}
	planes, err := w.Trusted()
	if err != nil {
		return ""
	}
	for _, o := range offers {
		if session.StandingOf(planes, o) == session.TrustedOtherCA {
			return fmt.Sprintf("the data plane %s has another CA than the one that you trusted, and the binding %s names another one too, with SHA-256 %s. If your provider has changed it, run: sandbar trust %s",
				termsafe.Line(o.URL), o.Binding, o.CAHash, termsafe.Line(o.URL))
		}
	}
	return ""
}

// isNotServed reports whether a workspace has no such resource, other than no such object.
func isNotServed(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

// whereabouts looks in a workspace for what a command did not find.
type whereabouts struct {
	Kind
	name string
	// alone reports whether the person wrote the name without a kind.
	alone bool
}

// kinds are those that the workspace serves in the group.
func (w whereabouts) kinds() []metav1.APIResource {
	served, err := discovery.NewDiscoveryClientForConfig(w.Config)
	if err != nil {
		return nil
	}
	list, err := served.ServerResourcesForGroupVersion(w.Resource.GroupVersion().String())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool { return strings.Contains(r.Name, "/") })
}

// kindOf is the name of the kind that is meant.
func (w whereabouts) kindOf(kinds []metav1.APIResource) string {
	for _, k := range kinds {
		if k.Name == w.Resource.Resource {
			return k.Kind
		}
	}
	if w.Resource == client.SandboxRunners {
		return "SandboxRunner"
	}
	return w.Resource.GroupResource().String()
}

// notServed is for a resource that the workspace does not have.
func (w whereabouts) notServed() string {
	kinds := w.kinds()
	asked := w.Resource.GroupResource().String()
	if len(kinds) == 0 && !leadsIntoWorkspace(w.Config.Host) {
		return noWorkspace(w.Config.Host, w.Resource.Group)
	}
	if len(kinds) == 0 {
		return notBound(asked, w.Resource.Group)
	}
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		name := k.Name + "." + w.Resource.Group
		meant := w.Resource.Resource
		if strings.EqualFold(meant, k.Kind) || meant == k.SingularName || slices.Contains(k.ShortNames, meant) {
			return fmt.Sprintf("this workspace has no resource %s; did you mean %s?", asked, name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Sprintf("this workspace has no resource %s; it has %s", asked, termsafe.Line(strings.Join(names, ", ")))
}

// notBound is for a workspace that has no APIBinding to a provider of a resource, or of a whole group.
func notBound(asked, group string) string {
	return fmt.Sprintf("this workspace has not bound %s: run sandbar bind WORKSPACE:%s with your provider's workspace, often root:sandbar",
		termsafe.Line(asked), termsafe.Line(group))
}

// missing is for an instance that is not there: perhaps it is one of another kind.
func (w whereabouts) missing(ctx context.Context) string {
	kinds := w.kinds()
	kind := w.kindOf(kinds)
	for _, k := range kinds {
		if k.Name == w.Resource.Resource || !k.Namespaced {
			continue
		}
		other := w.Resource.GroupVersion().WithResource(k.Name)
		if _, err := w.objects.Resource(other).Namespace(w.Namespace).Get(ctx, w.name, metav1.GetOptions{}); err == nil {
			written := object.Reference{Kind: object.Kind{Resource: other}.Word(), Name: w.name}
			return fmt.Sprintf("there is no %s %s; did you mean the %s %s? Write %s", kind, w.name, k.Kind, w.name, written)
		}
	}
	text := fmt.Sprintf("there is no %s %s in the namespace %s", kind, w.name, w.Namespace)
	list, err := w.Instances().List(ctx, metav1.ListOptions{Limit: MostCompared})
	if err != nil {
		return text
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	names = append(names, w.others(ctx, names)...)
	switch {
	case len(names) == 0 && w.noNamespace(ctx):
		return fmt.Sprintf("there is no namespace %s in %s: name another with -n, or make it with kubectl create namespace %s", w.Namespace, PlaceOf(w.Config.Host), w.Namespace)
	case len(names) == 0:
		return fmt.Sprintf("%s, and no other: sandbar get %s -A looks in all namespaces, and sandbar create %s %s makes one", text, w.Resource.Resource, strings.ToLower(kind), w.name)
	case len(similar(w.name, names)) > 0:
		return text + termsafe.Line(DidYouMean(w.name, "", names))
	case len(names) > MostOthers:
		names = append(names[:MostOthers], "others")
	}
	return text + "; it has " + termsafe.Line(strings.Join(names, ", "))
}

// others are the names of instances of other kinds that could have been meant, too: those that need no kind.
func (w whereabouts) others(ctx context.Context, have []string) []string {
	if !w.alone {
		return nil
	}
	c, err := object.New(w.Config)
	if err != nil {
		return nil
	}
	names, err := c.NamesAlone(ctx, w.Namespace, MostCompared)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(have, name) })
}

// noNamespace reports whether the workspace says that the namespace is not there.
func (w whereabouts) noNamespace(ctx context.Context) bool {
	_, err := w.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, w.Namespace, metav1.GetOptions{})
	return apierrors.IsNotFound(err) && !isNotServed(err)
}

// gone is for an instance that the data plane does not know, or a verb.
func (w whereabouts) gone(ctx context.Context, uid, verb string) string {
	obj, err := w.Instances().Get(ctx, w.name, metav1.GetOptions{})
	kind := w.kindOf(nil)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("the %s %s was deleted meanwhile", kind, w.name)
	case err != nil:
		return ""
	}
	kind = cmp.Or(obj.GetKind(), kind)
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("the %s %s is being deleted", kind, w.name)
	case uid != "" && uid != string(obj.GetUID()):
		return fmt.Sprintf("the %s %s was deleted and created again meanwhile: run the command again", kind, w.name)
	}
	verbs, _, _ := unstructured.NestedStringSlice(obj.Object, "status", "dataPlane", "verbs")
	if verb == "" || len(verbs) == 0 || slices.ContainsFunc(verbs, func(v string) bool { return v == verb || strings.HasSuffix(v, "/"+verb) }) {
		return ""
	}
	return fmt.Sprintf("a %s has no verb %s; it has %s", kind, verb, termsafe.Line(strings.Join(verbs, ", ")))
}
