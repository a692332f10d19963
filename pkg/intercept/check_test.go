// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

const serviceText = `
metadata: {namespace: prod, name: web, uid: s, resourceVersion: "1", labels: {team: shop}}
spec:
  type: ClusterIP
  clusterIP: 10.0.0.7
  selector: {app: web, tier: front}
  sessionAffinity: None
  ports:
  - {name: http, port: 80, targetPort: http, protocol: TCP}
  - {name: grpc-api, port: 9090, targetPort: 9090, protocol: TCP}
`

func parsed[T any](t testing.TB, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func serviceOf(t testing.TB, spec string) *corev1.Service {
	t.Helper()
	var both [2][]byte
	for i, text := range []string{serviceText, spec} {
		var err error
		if both[i], err = yaml.YAMLToJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := jsonpatch.MergePatch(both[0], both[1])
	if err != nil {
		t.Fatal(err)
	}
	return parsed[corev1.Service](t, string(merged))
}

func TestAServiceThatCannotHaveProxiesIsRefused(t *testing.T) {
	var many []string
	for i := range MaxPorts + 1 {
		many = append(many, fmt.Sprintf("{name: p%d, port: %d}", i, 1000+i))
	}
	for name, c := range map[string]struct{ change, says string }{
		"an ordinary one":                 {"{}", ""},
		"headless":                        {"spec: {clusterIP: None}", "is headless"},
		"without a selector":              {"spec: {selector: null}", "has no selector"},
		"another host":                    {"spec: {type: ExternalName}", "is an ExternalName"},
		"node ports without other nodes":  {"spec: {type: NodePort, externalTrafficPolicy: Local}", "externalTrafficPolicy Local"},
		"a load balancer of that kind":    {"spec: {type: LoadBalancer, externalTrafficPolicy: Local}", "externalTrafficPolicy Local"},
		"node ports of all nodes":         {"spec: {type: NodePort, externalTrafficPolicy: Cluster}", ""},
		"of the own node alone":           {"spec: {internalTrafficPolicy: Local}", "internalTrafficPolicy Local"},
		"that keeps clients with a pod":   {"spec: {sessionAffinity: ClientIP}", "sessionAffinity ClientIP"},
		"that leads to pods too early":    {"spec: {publishNotReadyAddresses: true}", "publishNotReadyAddresses"},
		"with a port of UDP":              {"spec: {ports: [{port: 53, protocol: UDP}]}", "port 53 of UDP"},
		"with a port of SCTP":             {"spec: {ports: [{port: 80}, {port: 81, protocol: SCTP}]}", "port 81 of SCTP"},
		"without ports":                   {"spec: {ports: []}", "has 0 ports"},
		"with too many ports":             {"spec: {ports: [" + strings.Join(many, ", ") + "]}", "has 33 ports: a proxy can stand in front of one with 1 to 32"},
		"with as many as there may be":    {"spec: {ports: [" + strings.Join(many[1:], ", ") + "]}", ""},
		"one that stands behind a proxy":  {"metadata: {labels: {sandbar.dev/intercepts: x, app.kubernetes.io/managed-by: sandbar}}", "is one that Sandbar has made"},
		"whose selector chooses the pods": {"spec: {selector: {app: null, tier: null, app.kubernetes.io/managed-by: sandbar}}", "also chooses pods of Sandbar"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check(serviceOf(t, c.change))
			var refused *route.RefusedError
			switch {
			case c.says == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.says != "" && (!errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.RouteInvalidSpec || !strings.Contains(err.Error(), c.says)):
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

func TestABaselineAdmitsProxiesOfItsServicesAlone(t *testing.T) {
	const open = "{namespaces: [{name: prod, as: shop}, {name: kube-system, as: sys}], routing: {proxy: {enabled: true}}"
	for name, c := range map[string]struct{ spec, alias, reason, says string }{
		"a Service of it":           {open + "}", "shop", "", ""},
		"one that is not enabled":   {"{namespaces: [{name: prod, as: shop}]}", "shop", sandbarv1alpha1.RouteProviderUnavailable, "does not admit proxies"},
		"copies out of reach":       {open + ", network: {reachableFromBaseline: false}}", "shop", sandbarv1alpha1.RouteNotAllowed, "do not reach copies"},
		"another namespace":         {open + "}", "prod", sandbarv1alpha1.RouteNotAllowed, "has no namespace prod; it has [shop]"},
		"a reserved namespace":      {open + "}", "sys", sandbarv1alpha1.RouteNotAllowed, "has no namespace sys"},
		"a Service that is left":    {open + ", services: {names: [api]}}", "shop", sandbarv1alpha1.RouteNotAllowed, "Service web is not one of Baseline b"},
		"a selector that chooses":   {open + ", services: {selector: {matchLabels: {team: shop}}}}", "shop", "", ""},
		"a selector that is broken": {open + ", services: {selector: {matchExpressions: [{key: a, operator: X}]}}}", "shop", sandbarv1alpha1.RouteNotAllowed, "ask the operator"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &sandbarv1alpha1.Baseline{}
			b.Name, b.Spec = "b", *parsed[sandbarv1alpha1.BaselineSpec](t, c.spec)
			namespace, err := Admit("spec.rules[0].targetServiceRef", b, c.alias)
			if err == nil {
				err = AdmitService("spec.rules[0].targetServiceRef", b, serviceOf(t, "{}"))
			}
			var refused *route.RefusedError
			switch {
			case c.reason == "" && (err != nil || namespace != "prod"):
				t.Errorf("%q, %v", namespace, err)
			case c.reason != "" && (!errors.As(err, &refused) || refused.Reason != c.reason || !strings.Contains(err.Error(), c.says)):
				t.Errorf("it says %v, want %s: %q", err, c.reason, c.says)
			}
		})
	}
}

func TestWhereAProxyListensAndWhatItSpeaks(t *testing.T) {
	for name, c := range map[string]struct{ ports, want string }{
		"numbers, and a name with a number of its own": {"[{name: http, port: 8080, targetPort: web}, {name: a, port: 81, targetPort: 9000}]", "http 8080 HTTP b:8080; a 9000 Detect b:81"},
		"a name whose number needs a privilege":        {"[{name: http, port: 80, targetPort: web}]", "http 16000 HTTP b:80"},
		"a name whose number another has":              {"[{name: http, port: 8080, targetPort: web}, {name: tcp-x, port: 81, targetPort: 8080}]", "http 16000 HTTP b:8080; tcp-x 8080 TCP b:81"},
		"two names":                                    {"[{name: a, port: 80, targetPort: p}, {name: b, port: 81, targetPort: q}]", "a 16000 Detect b:80; b 16001 Detect b:81"},
		"a number that needs a privilege":              {"[{port: 80}]", " 80 Detect b:80"},
		"two ports with one target":                    {"[{name: a, port: 80, targetPort: 8080}, {name: b, port: 81, targetPort: 8080}]", "a 8080 Detect b:80"},
		"the port of the proxy itself":                 {"[{name: a, port: 15080}]", "a 15080 Detect b:15080"},
		"what appProtocol says":                        {"[{name: mysql, port: 8080, appProtocol: kubernetes.io/h2c}]", "mysql 8080 HTTP b:8080"},
		"an appProtocol with TLS":                      {"[{name: http, port: 8443, appProtocol: HTTPS}]", "http 8443 TCP b:8443"},
		"an appProtocol that nobody knows":             {"[{name: grpc-web, port: 8443, appProtocol: example.com/x}]", "grpc-web 8443 HTTP b:8443"},
		"a name that begins like a protocol":           {"[{name: httpish, port: 8443}]", "httpish 8443 Detect b:8443"},
		"a server that speaks first, by a name":        {"[{name: mysql-main, port: 3306}]", "mysql-main 3306 TCP b:3306"},
	} {
		t.Run(name, func(t *testing.T) {
			p := portsOf(serviceOf(t, "spec: {ports: "+c.ports+"}"), nil)
			var all []string
			for _, one := range p.wire {
				all = append(all, fmt.Sprintf("%s %d %s %s", one.Name, one.Listen, one.Protocol, strings.Replace(one.Baseline, "web-sandbar-baseline.prod.svc", "b", 1)))
				if one.Listen == p.admin {
					t.Errorf("it is the port of the proxy's own health, too: %d", p.admin)
				}
			}
			if got := strings.Join(all, "; "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestProxiesReachTheOriginalPodsByAnAddress(t *testing.T) {
	for address, want := range map[string]string{"": "web-sandbar-baseline.prod.svc:80", "None": "web-sandbar-baseline.prod.svc:80", "10.0.0.9": "10.0.0.9:80", "fd00::9": "[fd00::9]:80"} {
		behind := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: address}}
		if got := portsOf(serviceOf(t, "{}"), behind).wire[0].Baseline; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		doc := documentOf(serviceOf(t, "{}"), behind, nil, nil)
		if _, _, err := proxyrules.Parse([]byte(doc.Text), "web"); err != nil {
			t.Errorf("the proxies do not take %s: %v", doc.Text, err)
		}
	}
}

func TestNamesAreCutAndStayDifferent(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, name := range []func(string) string{ProxyName, BaselineName} {
		if a, b := name(long), name(long[:62]); a == b || len(a) > 63 || len(b) > 63 {
			t.Errorf("%s, %s", a, b)
		}
	}
	if got := ProxyName("web") + " " + BaselineName("web"); got != "sandbar-proxy-web web-sandbar-baseline" {
		t.Error(got)
	}
}

func TestTheObjectsOfProxiesAreAsTheGoldenHasThem(t *testing.T) {
	if err := os.MkdirAll("testdata/render", 0o750); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]string{
		"web":        "{}",
		"dual":       "spec: {ipFamilies: [IPv6, IPv4], ipFamilyPolicy: RequireDualStack, trafficDistribution: PreferClose}",
		"privileged": "spec: {type: NodePort, ports: [{name: https, port: 443, nodePort: 30443}]}",
	} {
		all := render(serviceOf(t, spec), nil, "registry.example/proxy:1")
		var texts []string
		for _, obj := range []any{all.behind, all.budget, all.deployment} {
			text, err := yaml.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		golden.Check(t, "testdata/render/"+name+".golden.yaml", []byte(strings.Join(texts, "---\n")))
	}
}
