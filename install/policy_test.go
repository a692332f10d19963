// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	controllersUser = "system:serviceaccount:sandbar-system:sandbar-controllers"
	serveUser       = "system:serviceaccount:sandbar-system:sandbar-serve"
	kroUser         = "system:serviceaccount:kro-system:kro"
)

// write is a request that changes something.
type write struct {
	user, operation string
	// what is group/resource, and the subresource after another slash.
	what, namespace, name string
	dryRun                bool
	// object is the new one, or with DELETE the old one, as YAML. One that is updated was the same.
	object string
}

// providers are the logical clusters of the providers of the namespaces that have one.
var providers = map[string]string{ourPlacement: testProvider, otherPlacement: "another"}

const ourPlacement, otherPlacement = "sb-aaaaaaaaaaaaaaaaaaaaaaaaaa", "sb-bbbbbbbbbbbbbbbbbbbbbbbbbb"

// refusal has the API server's own CEL environment evaluate a policy as the API server does. The reason is
// empty if the policy lets the write through.
func refusal(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy, w write) string {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(w.object), &object); err != nil {
		t.Fatal(err)
	}
	group, resource, _ := strings.Cut(w.what, "/")
	resource, subresource, _ := strings.Cut(resource, "/")
	input := map[string]any{"object": object, "oldObject": nil, "request": map[string]any{
		"userInfo": map[string]any{"username": w.user}, "operation": w.operation, "dryRun": w.dryRun, "namespace": w.namespace, "name": w.name,
		"resource": map[string]any{"group": group, "resource": resource}, "subResource": subresource,
	}}
	switch w.operation {
	case "DELETE":
		input["object"], input["oldObject"] = nil, object
	case "UPDATE":
		input["oldObject"] = object
	}
	if resource != "namespaces" { // of a Namespace the API server gives none
		input["namespaceObject"] = map[string]any{"metadata": map[string]any{"annotations": map[string]any{placement.AnnotationProvider: providers[w.namespace]}}}
	}
	return verdict(t, policy, input)
}

// verdict is refusal for the variables of a request.
func verdict(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy, input map[string]any) string {
	t.Helper()
	var options []cel.EnvOption
	for _, name := range []string{"request", "object", "oldObject", "namespaceObject", "variables"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]any{}
	input["variables"] = variables
	eval := func(expression string) (any, error) {
		compiled, issues := set.NewExpressionsEnv().Compile(expression)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", expression, issues.Err())
		}
		program, err := set.NewExpressionsEnv().Program(compiled)
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := program.Eval(input)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
		return value.Value(), nil
	}
	for _, condition := range policy.Spec.MatchConditions {
		if matches, err := eval(condition.Expression); err != nil {
			return err.Error()
		} else if matches != true {
			return ""
		}
	}
	// One that cannot be evaluated fails the expressions that use it, and no others.
	for _, variable := range policy.Spec.Variables {
		value, err := eval(variable.Expression)
		if err != nil {
			t.Fatal(err)
		}
		variables[variable.Name] = value
	}
	for _, validation := range policy.Spec.Validations {
		passes, err := eval(validation.Expression)
		if err == nil && passes != true {
			message := any(validation.Message)
			if validation.MessageExpression != "" {
				message, err = eval(validation.MessageExpression)
			}
			err = errors.Join(err, fmt.Errorf("%v", message))
		}
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

func policies(t *testing.T, edit func(*Options)) map[string]*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	opts := testOptions()
	edit(&opts)
	objects, err := runtimeObjects(opts, "restricted")
	if err != nil {
		t.Fatal(err)
	}
	return policiesOf(t, objects)
}

func policiesOf(t *testing.T, objects []*unstructured.Unstructured) map[string]*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	found := map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, object := range objects {
		if object.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err != nil {
			t.Fatal(err)
		}
		found[policy.Name] = policy
	}
	return found
}

// TestAdmissionRefusesWhatLeadsOn evaluates the policies of the manifests. e2e
// TestAStolenCredentialIsWorthNoMoreThanItsWork tries them on an API server.
func TestAdmissionRefusesWhatLeadsOn(t *testing.T) {
	all := policies(t, func(*Options) {})
	const at, theirPlacement, graph, crd = ourPlacement, otherPlacement, "kro.run/resourcegraphdefinitions", "apiextensions.k8s.io/customresourcedefinitions"
	graphOf := func(resource string) write {
		return write{controllersUser, "CREATE", graph, "", "a", false, `{metadata: {name: a}, spec: {schema: {group: sandbar.dev}, resources: [{id: a, ` + resource + `}]}}`}
	}
	namespace := func(operation, subresource string) write {
		return write{kroUser, operation, "/namespaces" + subresource, at, at, false, `{metadata: {name: ` + at + `}}`}
	}
	check := func(name, labels, spec string) write {
		return write{controllersUser, "CREATE", "/pods", "sandbar-netcheck", name, false, `{metadata: {name: ` + name + `, labels: {` + labels + `}}, spec: {` + spec + `}}`}
	}
	netpol := func(operation, namespace, name, about string) write {
		return write{
			controllersUser, operation, "networking.k8s.io/networkpolicies", namespace, name, false,
			`{metadata: {name: ` + name + `}, spec: {podSelector: {matchLabels: {sandbar.dev/netcheck: ` + about + `}}}}`,
		}
	}
	service := func(what, spec string) write {
		return write{kroUser, "UPDATE", what, at, "web", false, `{metadata: {name: web}, spec: {` + spec + `}}`}
	}
	placementOf := func(operation, name, provider string) write {
		annotations := ""
		if provider != "" {
			annotations = `, annotations: {` + placement.AnnotationProvider + `: ` + provider + `}`
		}
		return write{
			controllersUser, operation, "/namespaces", name, name, false,
			`{metadata: {name: ` + name + `, labels: {pod-security.kubernetes.io/enforce: restricted}` + annotations + `}}`,
		}
	}
	route := func(operation, namespace, matches string) write {
		return write{
			controllersUser, operation, "gateway.networking.k8s.io/httproutes", namespace, "web", false,
			`{metadata: {name: web}, spec: {rules: [{matches: [{headers: [{name: X-Sandbox, value: sbx-ab12cd34}]}]}, {matches: [` + matches + `]}]}}`,
		}
	}
	const baggage = `{headers: [{name: x, value: "1"}, {name: baggage, type: RegularExpression, value: '^(?:.*,)?[ \t]*sandbox[ \t]*=[ \t]*sbx-ab12cd34[ \t]*(?:[;,].*)?$'}]}`
	deletion := func(user, what, object string) write { return write{user, "DELETE", what, "", "a", false, object} }
	const (
		ours    = `{metadata: {name: sandbox, labels: {app.kubernetes.io/managed-by: sandbar}}}`
		allowed = `{metadata: {name: sandbox, labels: {app.kubernetes.io/managed-by: sandbar}, annotations: {` + placement.AnnotationAllowDeletion + `: "true"}}}`
		theirs  = `{metadata: {name: other}}`
		kind    = `{metadata: {name: sandboxes.sandbar.dev}, spec: {group: sandbar.dev}}`
		kroKind = `{metadata: {name: resourcegraphdefinitions.kro.run}, spec: {group: kro.run}}`
	)
	graphs := "a graph of Sandbar defines a kind"
	for name, tc := range map[string]struct {
		policy string
		write  write
		want   string
	}{
		"kro makes no Namespace that is named like a placement": {"sandbar-kro", namespace("CREATE", ""), "kro does not"},
		"and changes none":                              {"sandbar-kro", namespace("UPDATE", ""), "kro does not"},
		"by no subresource either":                      {"sandbar-kro", namespace("UPDATE", "/finalize"), "kro does not"},
		"kro makes ConfigMaps in placements":            {"sandbar-kro", write{kroUser, "CREATE", "/configmaps", at, "a", false, `{}`}, ""},
		"kro makes Services in placements":              {"sandbar-kro", service("/services", "type: ClusterIP, clusterIP: 10.0.0.1"), ""},
		"with no address of their own":                  {"sandbar-kro", service("/services", "externalIPs: [192.0.2.1]"), "ClusterIP without externalIPs"},
		"that no node's port leads to":                  {"sandbar-kro", service("/services", "type: NodePort"), "ClusterIP without externalIPs"},
		"that no load balancer leads to":                {"sandbar-kro", service("/services", "type: LoadBalancer"), "ClusterIP without externalIPs"},
		"that are no other name":                        {"sandbar-kro", service("/services", "type: ExternalName, externalName: a.test"), "ClusterIP without externalIPs"},
		"and writes no status of theirs":                {"sandbar-kro", service("/services/status", "type: ClusterIP"), "ClusterIP without externalIPs"},
		"kro deletes Services of any kind":              {"sandbar-kro", write{kroUser, "DELETE", "/services", at, "a", false, `{spec: {type: NodePort}}`}, ""},
		"a graph makes pods":                            {"sandbar-controllers", graphOf(`template: {apiVersion: v1, kind: Pod}`), ""},
		"a graph makes routes":                          {"sandbar-controllers", graphOf(`template: {apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute}`), ""},
		"a graph makes an operator's own kinds":         {"sandbar-controllers", graphOf(`template: {apiVersion: agents.x-k8s.io/v1alpha1, kind: Sandbox}`), ""},
		"a graph makes no Namespace":                    {"sandbar-controllers", graphOf(`template: {apiVersion: v1, kind: Namespace}`), graphs},
		"nor by another spelling":                       {"sandbar-controllers", graphOf(`template: {apiVersion: /v1, kind: Namespace}`), graphs},
		"nor PersistentVolumes":                         {"sandbar-controllers", graphOf(`template: {apiVersion: v1, kind: PersistentVolume}`), graphs},
		"nor roles":                                     {"sandbar-controllers", graphOf(`template: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole}`), graphs},
		"nor graphs":                                    {"sandbar-controllers", graphOf(`template: {apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition}`), graphs},
		"nor what it says later":                        {"sandbar-controllers", graphOf(`template: {apiVersion: "${a}", kind: Pod}`), graphs},
		"nor in a part of the group":                    {"sandbar-controllers", graphOf(`template: {apiVersion: "a.${a}/v1", kind: Pod}`), graphs},
		"a graph reads ConfigMaps":                      {"sandbar-controllers", graphOf(`externalRef: {apiVersion: v1, kind: ConfigMap}`), ""},
		"a graph reads no Secret":                       {"sandbar-controllers", graphOf(`externalRef: {apiVersion: v1, kind: Secret}`), graphs},
		"nor by another spelling of the version":        {"sandbar-controllers", graphOf(`externalRef: {apiVersion: /v1, kind: Secret}`), graphs},
		"nor any other kind":                            {"sandbar-controllers", graphOf(`externalRef: {apiVersion: apps/v1, kind: Deployment}`), graphs},
		"the network check has its pods":                {"sandbar-controllers", check("open", "sandbar.dev/netcheck: open", "activeDeadlineSeconds: 300, terminationGracePeriodSeconds: 0"), ""},
		"and no others":                                 {"sandbar-controllers", check("other", "sandbar.dev/netcheck: other", "activeDeadlineSeconds: 300, terminationGracePeriodSeconds: 0"), "dry run only"},
		"which its policies are about":                  {"sandbar-controllers", check("shut", "a: b", "activeDeadlineSeconds: 300, terminationGracePeriodSeconds: 0"), "dry run only"},
		"that end":                                      {"sandbar-controllers", check("open", "sandbar.dev/netcheck: open", "terminationGracePeriodSeconds: 0"), "dry run only"},
		"soon":                                          {"sandbar-controllers", check("open", "sandbar.dev/netcheck: open", "activeDeadlineSeconds: 301, terminationGracePeriodSeconds: 0"), "dry run only"},
		"without grace":                                 {"sandbar-controllers", check("open", "sandbar.dev/netcheck: open", "activeDeadlineSeconds: 300"), "dry run only"},
		"one looks a name up":                           {"sandbar-controllers", check("dns", "sandbar.dev/netcheck: dns", "activeDeadlineSeconds: 300, terminationGracePeriodSeconds: 0"), ""},
		"under the egress policy of placements":         {"sandbar-controllers", netpol("CREATE", "sandbar-netcheck", "dns", "dns"), ""},
		"which follows the settings":                    {"sandbar-controllers", netpol("UPDATE", "sandbar-netcheck", "dns", "dns"), ""},
		"and is about no other pod":                     {"sandbar-controllers", netpol("UPDATE", "sandbar-netcheck", "dns", "shut"), "in placements only"},
		"nor about all":                                 {"sandbar-controllers", write{controllersUser, "CREATE", "networking.k8s.io/networkpolicies", "sandbar-netcheck", "dns", false, `{spec: {podSelector: {}}}`}, "in placements only"},
		"nor one of install's":                          {"sandbar-controllers", netpol("UPDATE", "sandbar-netcheck", "shut", "dns"), "in placements only"},
		"nor in another namespace":                      {"sandbar-controllers", netpol("CREATE", "kube-system", "dns", "dns"), "in placements only"},
		"and it stays":                                  {"sandbar-controllers", netpol("DELETE", "sandbar-netcheck", "dns", "dns"), "in placements only"},
		"a route is for one sandbox":                    {"sandbar-controllers", route("CREATE", at, baggage), ""},
		"and changes":                                   {"sandbar-controllers", route("UPDATE", at, baggage), ""},
		"and goes":                                      {"sandbar-controllers", write{controllersUser, "DELETE", "gateway.networking.k8s.io/httproutes", at, "web", false, `{}`}, ""},
		"and is not for everybody":                      {"sandbar-controllers", route("CREATE", at, `{path: {value: /}}`), "names a sandbox"},
		"nor in one of its rules":                       {"sandbar-controllers", route("CREATE", at, ``), "names a sandbox"},
		"nor for those with another header":             {"sandbar-controllers", route("CREATE", at, `{headers: [{name: X-Sandbox, value: all}]}`), "names a sandbox"},
		"nor by the header of the host":                 {"sandbar-controllers", route("CREATE", at, `{headers: [{name: Host, value: sbx-ab12cd34}]}`), "names a sandbox"},
		"nor by a regular expression of any other form": {"sandbar-controllers", route("CREATE", at, `{headers: [{name: baggage, type: RegularExpression, value: "sbx-ab12cd34|.*"}]}`), "names a sandbox"},
		"nor without a rule":                            {"sandbar-controllers", write{controllersUser, "CREATE", "gateway.networking.k8s.io/httproutes", at, "web", false, `{spec: {}}`}, "names a sandbox"},
		"nor beside the Gateway":                        {"sandbar-controllers", route("CREATE", "edge", baggage), "in placements only"},
		"nor in a placement of another provider's":      {"sandbar-controllers", route("CREATE", theirPlacement, baggage), "in placements only"},
		"a member of a set is resized":                  {"sandbar-controllers", write{controllersUser, "UPDATE", "/pods/resize", at, "sandbox-0", false, `{}`}, ""},
		"and no pod elsewhere":                          {"sandbar-controllers", write{controllersUser, "UPDATE", "/pods/resize", "kube-system", "coredns", false, `{}`}, "in placements only"},
		"nor one of another provider's":                 {"sandbar-controllers", write{controllersUser, "UPDATE", "/pods/resize", theirPlacement, "sandbox-0", false, `{}`}, "in placements only"},
		"nor by another subresource":                    {"sandbar-controllers", write{controllersUser, "UPDATE", "/pods/ephemeralcontainers", at, "sandbox-0", false, `{}`}, "do not write this kind"},
		"a pod that runs gets variables":                {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", at, "sandbox-0:7070", false, `{path: env}`}, ""},
		"once it has proven itself":                     {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", at, "sandbox-0:7070", false, `{path: challenge}`}, ""},
		"no command is run by its runner":               {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", at, "sandbox-0:7070", false, `{path: exec}`}, "/challenge and /env"},
		"nor by a path that leads there":                {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", at, "sandbox-0:7070", false, `{path: env/../exec}`}, "/challenge and /env"},
		"no other port of it":                           {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", at, "sandbox-0:8080", false, `{path: env}`}, "/challenge and /env"},
		"nor its port by TLS":                           {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", at, "https:sandbox-0:7070", false, `{path: env}`}, "/challenge and /env"},
		"no pod elsewhere":                              {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", "kube-system", "coredns:7070", false, `{path: env}`}, "/challenge and /env"},
		"nor another provider's":                        {"sandbar-controllers", write{controllersUser, "CONNECT", "/pods/proxy", theirPlacement, "sandbox-0:7070", false, `{path: env}`}, "/challenge and /env"},
		"variables are kept":                            {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", at, "sandbar-binding", false, `{immutable: true}`}, ""},
		"for good":                                      {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", at, "sandbar-binding", false, `{}`}, "immutable"},
		"and never changed":                             {"sandbar-controllers", write{controllersUser, "UPDATE", "/secrets", at, "sandbar-binding", false, `{immutable: true}`}, "immutable"},
		"a Secret of a Baseline is copied":              {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", at, "db", false, `{immutable: true, type: Opaque}`}, ""},
		"once":                                          {"sandbar-controllers", write{controllersUser, "UPDATE", "/secrets", at, "db", false, `{immutable: true, type: Opaque}`}, "immutable"},
		"and cannot be changed later":                   {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", at, "db", false, `{type: Opaque}`}, "immutable"},
		"in placements":                                 {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", "kube-system", "db", false, `{immutable: true}`}, "in placements only"},
		"of the own provider":                           {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", theirPlacement, "db", false, `{immutable: true}`}, "in placements only"},
		"never a token of a ServiceAccount":             {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", at, "db", false, `{immutable: true, type: kubernetes.io/service-account-token}`}, "no tokens of the cluster"},
		"nor one under a name of Sandbar's":             {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", at, "sandbar-other", false, `{immutable: true}`}, "immutable"},
		"a ConfigMap of a Baseline is copied":           {"sandbar-controllers", write{controllersUser, "CREATE", "/configmaps", at, "settings", false, `{immutable: true}`}, ""},
		"and stays as it is":                            {"sandbar-controllers", write{controllersUser, "UPDATE", "/configmaps", at, "settings", false, `{immutable: true}`}, "immutable copies"},
		"what is frozen is kept":                        {"sandbar-controllers", write{controllersUser, "CREATE", "/configmaps", at, "sandbar-snapshots", false, `{}`}, ""},
		"and changed":                                   {"sandbar-controllers", write{controllersUser, "UPDATE", "/configmaps", at, "sandbar-snapshots", false, `{}`}, ""},
		"not in another provider's placements":          {"sandbar-controllers", write{controllersUser, "UPDATE", "/configmaps", theirPlacement, "sandbar-snapshots", false, `{}`}, "immutable copies"},
		"and it deletes them":                           {"sandbar-controllers", write{controllersUser, "DELETE", "/pods", "sandbar-netcheck", "open", false, `{}`}, ""},
		"the controllers write in placements":           {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", at, "sandbar-control", false, `{}`}, ""},
		"but not in another provider's":                 {"sandbar-controllers", write{controllersUser, "CREATE", "/secrets", theirPlacement, "sandbar-control", false, `{}`}, "in placements only"},
		"nor end a kro instance there":                  {"sandbar-controllers", write{controllersUser, "DELETE", "sandbar.dev/sandboxes", theirPlacement, "web", false, `{}`}, "in placements only"},
		"nor say there that one was used":               {"sandbar-controllers", write{controllersUser, "UPDATE", "coordination.k8s.io/leases", theirPlacement, "sandbar-activity", false, `{}`}, "in placements and their own only"},
		"they make placements":                          {"sandbar-controllers", placementOf("CREATE", at, testProvider), ""},
		"and delete them":                               {"sandbar-controllers", placementOf("DELETE", at, testProvider), ""},
		"in their own name":                             {"sandbar-controllers", placementOf("CREATE", at, "another"), "their own placements only"},
		"and in one at all":                             {"sandbar-controllers", placementOf("CREATE", at, ""), "their own placements only"},
		"they sweep none of another provider":           {"sandbar-controllers", placementOf("DELETE", theirPlacement, "another"), "their own placements only"},
		"and change none":                               {"sandbar-controllers", placementOf("UPDATE", theirPlacement, "another"), "their own placements only"},
		"nor the graph of another provider":             {"sandbar-controllers", write{controllersUser, "DELETE", graph, "", "a", false, `{spec: {schema: {group: blue.sandbar.dev}}}`}, "of their own provider only"},
		"serve connects to placements":                  {"sandbar-serve", write{serveUser, "CONNECT", "/pods/exec", at, "web", false, `{}`}, ""},
		"but not to another provider's":                 {"sandbar-serve", write{serveUser, "CONNECT", "/pods/exec", theirPlacement, "web", false, `{}`}, "in placements only"},
		"kro has each provider's canary":                {"sandbar-kro", write{kroUser, "CREATE", "blue.sandbar.dev/sandbarcanaries/status", "sandbar-blue-system", "sandbar-canary", false, `{}`}, ""},
		"where providers are":                           {"sandbar-kro", write{kroUser, "CREATE", "blue.sandbar.dev/sandbarcanaries", "kube-system", "sandbar-canary", false, `{}`}, "in placements of Sandbar only"},
		"and nothing else there":                        {"sandbar-kro", write{kroUser, "CREATE", "/secrets", "sandbar-blue-system", "sandbar-control-keys", false, `{}`}, "in placements of Sandbar only"},
		"nor leads callers to its data plane":           {"sandbar-kro", write{kroUser, "CREATE", "/services", "sandbar-blue-system", "sandbar-canary", false, `{spec: {clusterIP: None, selector: {a: b}}}`}, "neither pods nor an address"},
		"nobody deletes a graph by mistake": {
			"sandbar-deletion", deletion("admin", graph, ours),
			"the kind of the graph sandbox, with their data. To take a kind out of service, delete its Template in the provider workspace: that waits until no instance is left. " +
				"To lose them, say so first: kubectl annotate resourcegraphdefinitions sandbox " + placement.AnnotationAllowDeletion + "=true",
		},
		"but on purpose":                {"sandbar-deletion", deletion("admin", graph, allowed), ""},
		"nor kro a graph":               {"sandbar-deletion", deletion(kroUser, graph, ours), "the kind of the graph"},
		"the controllers delete graphs": {"sandbar-deletion", deletion(controllersUser, graph, ours), ""},
		"everybody deletes their own":   {"sandbar-deletion", deletion("admin", graph, theirs), ""},
		"nobody deletes a kind":         {"sandbar-deletion", deletion("admin", crd, kind), "the kinds of sandboxes.sandbar.dev"},
		"nor the controllers":           {"sandbar-deletion", deletion(controllersUser, crd, kind), "the kinds of sandboxes.sandbar.dev"},
		"nor that of all graphs":        {"sandbar-deletion", deletion("admin", crd, kroKind), "the kinds of resourcegraphdefinitions.kro.run"},
		"kro deletes kinds":             {"sandbar-deletion", deletion(kroUser, crd, kind), ""},
		"those of another provider too": {"sandbar-deletion", deletion("admin", crd, `{metadata: {name: sandboxes.blue.sandbar.dev}, spec: {group: blue.sandbar.dev}}`), "the kinds of sandboxes.blue.sandbar.dev"},
		"whose controllers may":         {"sandbar-deletion", deletion("system:serviceaccount:sandbar-blue-system:sandbar-controllers", graph, ours), ""},
		"and nobody who is called so":   {"sandbar-deletion", deletion("system:serviceaccount:default:sandbar-controllers", graph, ours), "the kind of the graph"},
	} {
		t.Run(name, func(t *testing.T) {
			got := refusal(t, all[tc.policy], tc.write)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("refusal %q, want %q", got, tc.want)
			}
		})
	}
	// A kro that nobody has named still has to delete what it made.
	unnamed := policies(t, func(o *Options) { o.KroServiceAccount = "" })["sandbar-deletion"]
	if got := refusal(t, unnamed, deletion("system:serviceaccount:any:kro", crd, kind)); got != "" {
		t.Errorf("an unnamed kro is refused: %s", got)
	}
	if got := refusal(t, unnamed, deletion("admin", crd, kind)); got == "" {
		t.Error("an administrator is let through where kro has no name")
	}
}
