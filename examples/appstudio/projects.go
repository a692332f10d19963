// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

// A project is an instance of a Template in the person's workspace, with this label.
const (
	partOf   = "app.kubernetes.io/part-of"
	products = "appstudio"
)

// project is what the page shows of one.
type project struct {
	Name     string `json:"name"`
	Resource string `json:"resource"`
	Phase    string `json:"phase"`
	Message  string `json:"message,omitempty"`
	Ready    bool   `json:"ready"`
}

// listTemplates returns the Templates of the workspace's providers whose instances can be developed.
func listTemplates(p *person, w http.ResponseWriter, r *http.Request) error {
	templates, err := developed(p, r)
	if err != nil {
		return err
	}
	return answer(w, templates)
}

func developed(p *person, r *http.Request) ([]client.Template, error) {
	all, err := p.Workspace.Templates(r.Context())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(t client.Template) bool { return !slices.Contains(t.Verbs, "sync") }), nil
}

// listProjects asks for the instances of each of these Templates that carry the label.
func listProjects(p *person, w http.ResponseWriter, r *http.Request) error {
	templates, err := developed(p, r)
	if err != nil {
		return err
	}
	projects := []project{}
	for _, t := range templates {
		list, err := p.Objects.Resource(resourceOf(t.Resource)).Namespace(namespace).List(r.Context(), metav1.ListOptions{LabelSelector: partOf + "=" + products})
		if err != nil {
			return fmt.Errorf("listing %s: %w", t.Resource, err)
		}
		for i := range list.Items {
			projects = append(projects, describe(t.Resource, &list.Items[i]))
		}
	}
	return answer(w, projects)
}

// createProject creates an instance, as the person: kcp says whether they may, and the Template's schema what is missing.
func createProject(p *person, w http.ResponseWriter, r *http.Request) error {
	var in struct{ Name, Resource string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return requestError("reading the project: " + err.Error())
	}
	templates, err := developed(p, r)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(templates, func(t client.Template) bool { return t.Resource == in.Resource })
	if at < 0 {
		return requestError(fmt.Sprintf("no provider of your workspace offers %q for development", in.Resource))
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": templates[at].InstanceAPIVersion, "kind": templates[at].InstanceKind,
		"spec": starter(in.Resource, in.Name),
	}}
	obj.SetName(in.Name)
	obj.SetLabels(map[string]string{partOf: products})
	created, err := p.Objects.Resource(resourceOf(in.Resource)).Namespace(namespace).Create(r.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating %s: %w", in.Name, err)
	}
	return answer(w, describe(in.Resource, created))
}

// restartRule is what a save does to the app (docs/runner.md): the starter's server is started again, and a Template's
// development server sees for itself what has changed.
func restartRule(resource string) string {
	if resource == client.SandboxRunners.Resource {
		return "auto"
	}
	return "start"
}

// startCommand of a starter waits for the first file, which starts it again.
const startCommand = "test -f server.mjs || { echo 'Save server.mjs to start the app.'; exec sleep infinity; }; exec node server.mjs"

// starter is the spec of a new project. A product knows the Templates that it offers; of others, the defaults do.
func starter(resource, name string) map[string]any {
	spec := map[string]any{"projectRef": name}
	if resource == client.SandboxRunners.Resource {
		spec["toolchain"], spec["startCommand"] = "node", startCommand
	}
	return spec
}

func getProject(p *person, w http.ResponseWriter, r *http.Request) error {
	resource := r.PathValue("resource")
	obj, err := p.Objects.Resource(resourceOf(resource)).Namespace(namespace).Get(r.Context(), r.PathValue("name"), metav1.GetOptions{})
	if err != nil {
		return err
	}
	return answer(w, describe(resource, obj))
}

// deleteProject deletes the instance. The provider removes what it has on its cluster; the product has nothing there.
func deleteProject(p *person, w http.ResponseWriter, r *http.Request) error {
	err := p.Objects.Resource(resourceOf(r.PathValue("resource"))).Namespace(namespace).Delete(r.Context(), r.PathValue("name"), metav1.DeleteOptions{})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func resourceOf(name string) schema.GroupVersionResource {
	return sandbarv1alpha1.GroupVersion.WithResource(name)
}

func describe(resource string, obj *unstructured.Unstructured) project {
	p := project{Name: obj.GetName(), Resource: resource}
	p.Phase, _, _ = unstructured.NestedString(obj.Object, "status", "phase")
	if p.Phase == "" {
		p.Phase = string(sandbarv1alpha1.InstancePending)
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if c["type"] == sandbarv1alpha1.InstanceReadyCondition {
			p.Ready = c["status"] == "True"
			p.Message, _ = c["message"].(string)
		}
	}
	return p
}
