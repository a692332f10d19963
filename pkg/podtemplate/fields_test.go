// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sandbar-dev/sandbar/pkg/golden"
)

// place is a field of a pod that has a rule of its own.
type place struct {
	path string
	rule *fieldRule
	// set gives the field in a pod a value.
	set func(*corev1.PodSpec)
}

// places lists every field that the rules lead to, from the pod down, by reflection over
// Kubernetes' own types.
func places(t *testing.T) []place {
	t.Helper()
	var all []place
	var visit func(of reflect.Type, path string, at func(*corev1.PodSpec) reflect.Value)
	visit = func(of reflect.Type, path string, at func(*corev1.PodSpec) reflect.Value) {
		for i := range of.NumField() {
			field := of.Field(i)
			name := jsonName(field)
			if name == "" {
				visit(field.Type, path, func(pod *corev1.PodSpec) reflect.Value { return at(pod).Field(i) })
				continue
			}
			rule := ruleOf[of.Name()+"."+name]
			if rule == nil {
				t.Errorf("nobody has decided about %s.%s (%s.%s): add it to the rules in fields.go", path, name, of.Name(), name)
				continue
			}
			if rule.verdict != inside {
				all = append(all, place{path + "." + name, rule, func(pod *corev1.PodSpec) { fill(at(pod).Field(i)) }})
				continue
			}
			inner, innerPath := field.Type, path+"."+name
			if inner.Kind() == reflect.Slice {
				innerPath += "[0]"
			}
			if inner.Kind() != reflect.Struct {
				inner = inner.Elem()
			}
			visit(inner, innerPath, func(pod *corev1.PodSpec) reflect.Value { return first(at(pod).Field(i)) })
		}
	}
	visit(reflect.TypeFor[corev1.PodSpec](), "spec", func(pod *corev1.PodSpec) reflect.Value { return reflect.ValueOf(pod).Elem() })
	return all
}

// first is the struct that a field holds or leads to, made if need be.
func first(v reflect.Value) reflect.Value {
	switch v.Kind() { //nolint:exhaustive // the rest leads nowhere
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return v.Elem()
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		return v.Index(0)
	}
	return v
}

// fill gives a value of any type something that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		if quantity, ok := v.Addr().Interface().(*resource.Quantity); ok {
			*quantity = resource.MustParse("1Gi")
			return
		}
		fill(v.Field(0))
	default:
		v.SetInt(7)
	}
}

// A new version of Kubernetes brings new fields. This test names them, and until somebody has
// decided about one, no tenant can set it.
func TestEveryFieldOfAPodIsDecided(t *testing.T) {
	reached := map[*fieldRule]bool{}
	for _, p := range places(t) {
		reached[p.rule] = true
	}
	for i := range fieldRules {
		rule := &fieldRules[i]
		if rule.verdict != inside && !reached[rule] {
			t.Errorf("no pod has the fields %s of %s", rule.fields, rule.of)
		}
	}
}

func TestEveryRuleAboutAFieldHolds(t *testing.T) {
	problems := func(set, inBase func(*corev1.PodSpec)) []string {
		var template, base corev1.PodTemplateSpec
		for _, spec := range []*corev1.PodSpec{&template.Spec, &base.Spec} {
			spec.Containers = []corev1.Container{{Name: "main"}}
		}
		set(&template.Spec)
		inBase(&base.Spec)
		return check(&template, &base, rules)
	}
	nothing := func(*corev1.PodSpec) {}
	for _, p := range places(t) {
		t.Run(p.path, func(t *testing.T) {
			refused := problems(p.set, nothing)
			named := slices.ContainsFunc(refused, func(s string) bool { return strings.HasPrefix(s, p.path+":") })
			switch p.rule.verdict { //nolint:exhaustive // what is inside or bounded has tests of its own
			case yours, byLevel, fixed:
				if len(refused) > 0 {
					t.Errorf("a tenant may set it, and it is refused: %v", refused)
				}
			case operators, never:
				if !named {
					t.Errorf("it is refused with %q, want its path", refused)
				}
			}
			offered := problems(p.set, p.set)
			if p.rule.verdict == operators && len(offered) > 0 {
				t.Errorf("it is in the operator's template, and is refused: %v", offered)
			}
			// In a list, what the operator's template has just so is not looked at again.
			if p.rule.verdict == never && !strings.Contains(p.path, "[0]") && len(offered) == 0 {
				t.Error("no pod may have it, and an offered one has")
			}
		})
	}
}

// A field that no rule names, as a new version of Kubernetes may bring it, is refused.
func TestAFieldThatNobodyHasDecidedIsRefused(t *testing.T) {
	rule := ruleOf["PodSpec.hostUsers"]
	delete(ruleOf, "PodSpec.hostUsers")
	defer func() { ruleOf["PodSpec.hostUsers"] = rule }()
	_, err := Build(source(t, own(`, hostUsers: false`)), nil, nil, rules)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Problems[0] != "spec.hostUsers: is not known to this version of Sandbar; remove it" {
		t.Errorf("err = %v", err)
	}
}

func TestEveryBoundRefusesSomething(t *testing.T) {
	for i := range fieldRules {
		rule := &fieldRules[i]
		if rule.check == nil {
			continue
		}
		for name := range strings.FieldsSeq(rule.fields) {
			found := false
			for _, row := range refusals {
				at, _, _ := strings.Cut(row.field, "[memory]")
				at = strings.TrimSuffix(strings.TrimSuffix(at, ".name"), "[cpu]")
				found = found || strings.HasSuffix(at, "."+name) || strings.HasSuffix(row.field, "."+name)
			}
			if !found {
				t.Errorf("no test has %s.%s refused", rule.of, name)
			}
		}
	}
}

func TestWhatIsWithinBoundsIsAllowed(t *testing.T) {
	for name, text := range map[string]string{
		"the operator's runtime class":            own(`, runtimeClassName: gvisor`),
		"the cluster's resolver":                  own(`, dnsPolicy: ClusterFirst`),
		"a resolver of one's own":                 own(`, dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.1]}`),
		"Linux":                                   own(`, os: {name: linux}`),
		"no token, said":                          own(`, automountServiceAccountToken: false`),
		"the pod's own address":                   container(`env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]`),
		"the pod's labels":                        own(`, volumes: [{name: a, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.labels}}]}}]`),
		"another Secret":                          container(`env: [{name: A, valueFrom: {secretKeyRef: {name: sandbar-password, key: password}}}]`),
		"group 0 of one's own users":              own(`, hostUsers: false, securityContext: {runAsUser: 0, runAsGroup: 0, fsGroup: 0, supplementalGroups: [0]}`),
		"resources at their bounds":               container(`resources: {requests: {cpu: 1m, memory: 4Mi, ephemeral-storage: 1Mi}, limits: {cpu: "8", memory: 16Gi, ephemeral-storage: 40Gi}}`), // requests of less than their limits
		"a device that the quota counts":          container(`resources: {limits: {operator.example.com/gpu: 1}}`),
		"none of a device that it counts":         container(`resources: {limits: {operator.example.com/gpu: 0}}`),
		"volumes at their bounds":                 own(`, volumes: [{name: a, emptyDir: {sizeLimit: 8Gi}}, {name: b, emptyDir: {medium: Memory, sizeLimit: 1Gi}}, {name: c, emptyDir: {sizeLimit: 1}}]`),
		"masked /proc, said":                      container(`securityContext: {procMount: Default}`),
		"no propagation, said":                    container(`volumeMounts: [{name: a, mountPath: /a, mountPropagation: None}]`),
		"32 containers":                           own(`, initContainers: [` + strings.Repeat("{name: i}, ", 30) + `{name: i}]`),
		"300 seconds of grace":                    own(`, terminationGracePeriodSeconds: 300`),
		"the operator's volume, larger than ours": ofBase(`{}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, text)
			var b *Base
			if s.TemplateRef != nil {
				b = base(t)
			}
			if _, err := Build(s, b, nil, rules); err != nil {
				t.Error(err)
			}
		})
	}
	// Where the operator lets pods be root, group 0 is nothing more.
	relaxed := rules
	relaxed.PodSecurity = "baseline"
	if _, err := Build(source(t, own(`, securityContext: {runAsGroup: 0}`)), nil, nil, relaxed); err != nil {
		t.Error(err)
	}
}

func TestAVolumeWithoutASizeGetsOne(t *testing.T) {
	text := own(`, volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {medium: Memory}}, {name: c, emptyDir: {sizeLimit: 5Mi}}, {name: d, configMap: {name: e}}]`)
	pod, err := Build(source(t, text), nil, nil, rules)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"4Gi", "256Mi", "5Mi"} {
		if got := pod.Template.Spec.Volumes[i].EmptyDir.SizeLimit; got == nil || got.String() != want {
			t.Errorf("volume %d has the size %v, want %s", i, got, want)
		}
	}
	// A pod from before has none: it is this pod, and one with another image is not.
	for want, edit := range map[bool]func(spec map[string]any){
		true:  func(map[string]any) {},
		false: func(spec map[string]any) { spec["hostname"] = "other" },
	} {
		former, err := pod.Fields()
		if err != nil {
			t.Fatal(err)
		}
		spec := former["template"].(map[string]any)["spec"].(map[string]any)
		for _, volume := range spec["volumes"].([]any)[:2] {
			delete(volume.(map[string]any)["emptyDir"].(map[string]any), "sizeLimit")
		}
		edit(spec)
		if got, err := pod.Completes(former); err != nil || got != want {
			t.Errorf("it completes the former pod: %v, %v; want %v", got, err, want)
		}
	}
}

// A container runtime gives a user without a group the node's root group.
func TestAUserWithoutAGroupGetsOne(t *testing.T) {
	for text, want := range map[string]*int64{
		`{runAsUser: 33}`:                 new(int64(33)),
		`{runAsUser: 33, runAsGroup: 44}`: new(int64(44)),
		`{runAsNonRoot: false}`:           nil,
		`{}`:                              new(defaultUser),
	} {
		pod, err := Build(source(t, own(`, securityContext: `+text+`, volumes: [{name: a, emptyDir: {}}]`)), nil, nil, rules)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, pod.Template.Spec.SecurityContext.RunAsGroup); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		// A pod from before has none. It is not replaced for it.
		for _, sized := range []bool{true, false} {
			former, err := pod.Fields()
			if err != nil {
				t.Fatal(err)
			}
			spec := former["template"].(map[string]any)["spec"].(map[string]any)
			delete(spec["securityContext"].(map[string]any), "runAsGroup")
			if !sized {
				delete(spec["volumes"].([]any)[0].(map[string]any)["emptyDir"].(map[string]any), "sizeLimit")
			}
			grouped := text == `{runAsUser: 33}`
			if got, err := pod.Completes(former); err != nil || got != (grouped || want == nil) {
				t.Errorf("%s, sized %v: it completes the former pod: %v, %v", text, sized, got, err)
			}
		}
	}
}

// The document shows in a review what a rule means for tenants.
func TestTheDocumentHasEveryField(t *testing.T) {
	var out strings.Builder
	out.WriteString(documentHead)
	of := ""
	for i := range fieldRules {
		rule := &fieldRules[i]
		if rule.verdict == inside {
			continue
		}
		if rule.of != of {
			of = rule.of
			fmt.Fprintf(&out, "\n## %s\n\n| field | decided by | why |\n| --- | --- | --- |\n", of)
		}
		fields := "`" + strings.Join(strings.Fields(rule.fields), "`, `") + "`"
		fmt.Fprintf(&out, "| %s | %s | %s |\n", fields, rule.verdict, rule.why)
	}
	golden.Check(t, filepath.Join("..", "..", "docs", "pod-fields.md"), []byte(out.String()))
}

const documentHead = `# Every field of a pod

This table is made from the rules in pkg/podtemplate/fields.go, which decide about each field of a pod template that a
tenant writes or patches. A test compares the rules with the Kubernetes types that Sandbar is built with. A field that is not
in this table is refused.

| decided by | means |
| --- | --- |
| yours | the tenant sets it |
| bounded | the tenant sets it within the bounds that the last column names |
| pod security level | the tenant sets it, and the level of the placement (` + "`isolation.podSecurity`" + `) judges it |
| operator | only a pod that a Template offers (` + "`spec.base`" + `) may have it, and a patch cannot change it |
| fixed | Sandbar sets it |
| never | no pod has it |

A field whose inner fields are decided one by one has no row of its own.
`
