// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// What an instance may have of its own: no more than the runner takes (package runner).
const (
	// MaxEnvBytes bounds spec.env, names and values together.
	MaxEnvBytes = 64 << 10
	// MaxBoundNames and MaxBoundBytes bound all variables of an instance, those of its Secrets included, and MaxBoundValue
	// bounds one of them.
	MaxBoundNames = 256
	MaxBoundBytes = 256 << 10
	MaxBoundValue = 32 << 10
	maxBoundName  = 128
)

// Binding is what an instance says of its own variables.
type Binding struct {
	Env     []sandbarv1alpha1.SandboxEnv     `json:"env,omitempty"`
	EnvFrom []sandbarv1alpha1.SandboxEnvFrom `json:"envFrom,omitempty"`
}

// BindingOf reads it from an object; it is nil if the object has no variables of its own.
func BindingOf(s *scope.Scope) *Binding {
	if s.Pod() == nil {
		return nil
	}
	spec, _ := s.Object().Object["spec"].(map[string]any)
	b := &Binding{}
	said := map[string]any{contract.EnvField: spec[contract.EnvField], contract.EnvFromField: spec[contract.EnvFromField]}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(said, b); err != nil || len(b.Env) == 0 && len(b.EnvFrom) == 0 {
		return nil // the schema admits nothing else
	}
	return b
}

// Bound reports whether an instance has variables of its own.
func Bound(s *scope.Scope) bool { return BindingOf(s) != nil }

// Unbound is the scope of the same instance without variables of its own.
func Unbound(s *scope.Scope) *scope.Scope {
	if !Bound(s) {
		return s
	}
	object := s.Object().DeepCopy()
	for _, field := range []string{contract.EnvField, contract.EnvFromField} {
		unstructured.RemoveNestedField(object.Object, "spec", field)
	}
	return s.Protected(object, s.WorkspacePath())
}

// EnvError says which variables an instance cannot have. It has names, and no values.
type EnvError struct {
	Problem string
	// Secret is set if the problem is in a Secret, which may change, and not in the instance's own words.
	Secret bool
}

func (e *EnvError) Error() string { return e.Problem }

// CheckEnv checks what an instance says itself, before any Secret is read. template has the names that the template's first
// container sets. The error is an *EnvError.
func (b *Binding) CheckEnv(template []string) error {
	total := 0
	for _, v := range b.Env {
		if problem := checkVariable(v.Name, v.Value); problem != "" {
			return &EnvError{Problem: "spec.env: " + problem}
		}
		if slices.Contains(template, v.Name) {
			return &EnvError{Problem: fmt.Sprintf("spec.env: %s is set by the template; leave it out, or take another template", v.Name)}
		}
		total += len(v.Name) + len(v.Value)
	}
	if total > MaxEnvBytes {
		return &EnvError{Problem: fmt.Sprintf("spec.env: %d bytes are too many; have %d at most, and put more into a Secret", total, MaxEnvBytes)}
	}
	return nil
}

// Values are all variables: of Secrets, of which a later one wins, and of the instance's own words, which win over those. The
// error is an *EnvError.
func (b *Binding) Values(template []string, secrets []*corev1.Secret) (map[string][]byte, error) {
	values := map[string][]byte{}
	for _, secret := range secrets {
		for _, name := range slices.Sorted(maps.Keys(secret.Data)) {
			problem := checkVariable(name, string(secret.Data[name]))
			if problem == "" && slices.Contains(template, name) {
				problem = name + " is set by the template"
			}
			if problem != "" {
				return nil, &EnvError{Secret: true, Problem: fmt.Sprintf("spec.envFrom: Secret %q: %s; correct its keys", secret.Name, problem)}
			}
			values[name] = secret.Data[name]
		}
	}
	for _, v := range b.Env {
		values[v.Name] = []byte(v.Value)
	}
	total := 0
	for name, value := range values {
		total += len(name) + len(value) + 2
	}
	if len(values) > MaxBoundNames || total > MaxBoundBytes {
		return nil, &EnvError{Secret: len(secrets) > 0, Problem: fmt.Sprintf("spec.env and spec.envFrom: %d variables of %d bytes are too much; have %d of %d bytes at most",
			len(values), total, MaxBoundNames, MaxBoundBytes)}
	}
	return values, nil
}

// checkVariable says what is wrong with a variable; empty if nothing is. The runner refuses the same.
func checkVariable(name, value string) string {
	valid := name != "" && len(name) <= maxBoundName && (name[0] < '0' || name[0] > '9')
	for i := range len(name) {
		c := name[i]
		valid = valid && (c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z')
	}
	switch {
	case !valid:
		return fmt.Sprintf("%q cannot be the name of a variable: it must have letters, digits and underscores, begin with no digit, and be at most %d long", cut(name), maxBoundName)
	case strings.HasPrefix(name, "SANDBAR_") || name == "PORT":
		return name + " is not a tenant's to set: leave it out"
	case strings.ContainsRune(value, 0) || !utf8.ValidString(value):
		return "the value of " + name + " is not a text"
	case len(value) > MaxBoundValue:
		return fmt.Sprintf("the value of %s has %d bytes; have %d at most", name, len(value), MaxBoundValue)
	}
	return ""
}

func cut(name string) string { return name[:min(len(name), maxBoundName)] }

// BuildBinding is the Secret that keeps the variables for each pod of the placement. It is immutable: a placement is bound
// once, and to nobody else.
func BuildBinding(s *scope.Scope, values map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: s.ObjectMeta(placement.BindingSecret),
		Type:       corev1.SecretTypeOpaque,
		Immutable:  new(true),
		Data:       values,
	}
}

// SecretNames are those of the Secrets that an instance names, in order.
func (b *Binding) SecretNames() []string {
	var names []string
	for _, from := range b.EnvFrom {
		names = append(names, from.SecretRef.Name)
	}
	return names
}
