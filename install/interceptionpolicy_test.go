// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const proxyImageOfTests = "registry.example/proxy:1"

// wants fails a test whose write is not refused with these words; with none, one that is refused.
func (a *admitted) wants(t *testing.T, want string, c change) {
	t.Helper()
	if got := a.refusal(c); want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// edited is a copy of an object with a change.
func edited[T runtime.Object](of T, change func(T)) T {
	next := of.DeepCopyObject().(T)
	change(next)
	return next
}

// behindOf is the Service behind the proxies of liveService, as the API server shows it.
func behindOf(t *testing.T) *corev1.Service {
	t.Helper()
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web-sandbar-baseline", Labels: intercept.Labels("web")}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: maps.Clone(liveService(t).Spec.Selector), ClusterIP: "10.0.1.1", ClusterIPs: []string{"10.0.1.1"},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
		SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
		Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
	}}
}

func selecting(selector map[string]string) func(s *corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Selector = selector }
}

func saying(annotation string) func(s *corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[intercept.AnnotationOriginal] = annotation }
}

// A thief of the credential of the controllers may have the operator's proxies stand in front of a Service, and nothing else.
func TestAdmissionLeavesOfAServiceItsSelectorAlone(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	before := liveService(t)
	switched := intercept.Switched(before, nil)
	merged := edited(switched, func(s *corev1.Service) { s.Spec.Selector["app"] = "web2" })
	mergedAll := edited(merged, func(s *corev1.Service) { s.Spec.Selector["tier"], s.Spec.Selector["x"] = "back", "y" })
	changed := edited(switched, selecting(map[string]string{"app": "x"}))
	restored := func(s *corev1.Service) *corev1.Service {
		r, err := intercept.Restored(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const alone, back = "selector alone", "and back"
	for name, c := range map[string]struct {
		before, after *corev1.Service
		want          string
	}{
		"the switch":       {before, switched, ""},
		"the switch again": {switched, edited(switched, func(s *corev1.Service) { s.ResourceVersion = "9" }), ""},
		"the restore":      {switched, restored(switched), ""},
		"the restore of what somebody has merged": {merged, restored(merged), ""},
		"the restore of all that is merged":       {mergedAll, restored(mergedAll), ""},
		"the switch of what somebody has merged":  {mergedAll, intercept.Switched(mergedAll, nil), ""},
		"a restore of what is merged, alone":      {merged, edited(before, selecting(map[string]string{"app": "web2"})), back},
		"a restore of what was":                   {merged, before, back},
		"a restore of less than is merged":        {mergedAll, edited(before, selecting(map[string]string{"app": "web2", "tier": "back"})), back},
		"a restore of more than is merged":        {merged, edited(before, selecting(map[string]string{"app": "web2", "tier": "front", "x": "y"})), back},
		"a restore of another value of what was":  {merged, edited(before, selecting(map[string]string{"app": "web2", "tier": "thief"})), back},
		"a restore of a part of a value that was": {merged, edited(before, selecting(map[string]string{"app": "web2", "tier": "fro"})), back},
		"a restore of a part of a key that was":   {merged, edited(before, selecting(map[string]string{"app": "web2", "ier": "front"})), back},
		"a restore that keeps the annotation": {merged, edited(before, func(s *corev1.Service) {
			s.Spec.Selector["app"], s.Annotations = "web2", merged.Annotations
		}), back},
		"the switch of what somebody has changed": {changed, intercept.Switched(changed, nil), ""},
		"an annotation that is left over goes":    {changed, edited(before, selecting(map[string]string{"app": "x"})), ""},
		"another selector":                        {before, edited(before, selecting(map[string]string{"app": "thief"})), back},
		"the proxies of another Service":          {before, edited(switched, selecting(intercept.Selector("api"))), back},
		"the proxies with something else":         {before, edited(switched, func(s *corev1.Service) { s.Spec.Selector["app"] = "thief" }), back},
		"an annotation that says something else":  {before, edited(switched, saying(`{"app":"thf","tier":"front"}`)), back},
		"an annotation that says more":            {before, edited(switched, saying(`{"app":"web","tier":"front","x":"y"}`)), back},
		"an annotation that says less":            {before, edited(switched, saying(`{"app":"web"}`)), back},
		"an annotation without its end":           {before, edited(switched, saying(`{"app":"web","tier":"front",`)), back},
		"an annotation without its beginning":     {before, edited(switched, saying(`"app":"web","tier":"front"}}`)), back},
		"an annotation that is not JSON":          {before, edited(switched, saying(`["app":"web";"tier":"front"]`)), back},
		"no annotation":                           {before, edited(switched, func(s *corev1.Service) { s.Annotations = before.Annotations }), back},
		"an annotation that is changed later":     {switched, edited(switched, saying(`{"app":"thief"}`)), back},
		"a restore to something else":             {switched, edited(before, selecting(map[string]string{"app": "thief", "tier": "front"})), back},
		"a restore to less":                       {switched, edited(before, selecting(map[string]string{"app": "web"})), back},
		"a restore to nothing":                    {switched, edited(before, selecting(nil)), back},
		"other ports with the switch":             {before, edited(switched, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), alone},
		"another address":                         {before, edited(switched, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"8.8.8.8"} }), alone},
		"another type":                            {before, edited(switched, func(s *corev1.Service) { s.Spec.Type = "LoadBalancer" }), alone},
		"clients that stay with a pod":            {before, edited(switched, func(s *corev1.Service) { s.Spec.SessionAffinity = "ClientIP" }), alone},
		"other families of addresses":             {before, edited(switched, func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) }), alone},
		"another class of load balancers":         {before, edited(switched, func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("thief") }), alone},
		"no ports of nodes":                       {before, edited(switched, func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(false) }), alone},
		"another port of health checks":           {before, edited(switched, func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30000 }), alone},
		"another way through zones":               {before, edited(switched, func(s *corev1.Service) { s.Spec.TrafficDistribution = new("PreferClose") }), alone},
		"pods that are not ready":                 {before, edited(switched, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }), alone},
		"without an address":                      {before, edited(switched, func(s *corev1.Service) { s.Spec.ClusterIP = "" }), alone},
		"a label":                                 {before, edited(switched, func(s *corev1.Service) { s.Labels["x"] = "y" }), alone},
		"without a label":                         {before, edited(switched, func(s *corev1.Service) { s.Labels = nil }), alone},
		"a finalizer":                             {before, edited(switched, func(s *corev1.Service) { s.Finalizers = []string{"x/y"} }), alone},
		"an annotation of others":                 {before, edited(switched, func(s *corev1.Service) { s.Annotations["note"] = "other" }), alone},
		"one more annotation":                     {before, edited(switched, func(s *corev1.Service) { s.Annotations["x"] = "y" }), alone},
		"without an annotation of others":         {before, edited(switched, func(s *corev1.Service) { delete(s.Annotations, "note") }), alone},
		"an owner":                                {before, edited(switched, func(s *corev1.Service) { s.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }), alone},
		"nothing of an interception":              {before, edited(before, func(s *corev1.Service) { s.Labels["x"] = "y" }), alone},
	} {
		t.Run(name, func(t *testing.T) {
			a.wants(t, c.want, change{operation: admission.Update, resource: services, namespace: "prod", name: "web", before: c.before, after: c.after})
		})
	}
	for _, operation := range []admission.Operation{admission.Create, admission.Delete} {
		c := change{operation: operation, resource: services, namespace: "prod", name: "web", after: before}
		if operation == admission.Delete {
			c.before, c.after = before, nil
		}
		a.wants(t, back, c)
	}
	a.wants(t, "do not write this kind", change{operation: admission.Update, resource: services, subresource: "status", namespace: "prod", name: "web", before: before, after: before})
}

// The Service behind has what the Service had, and nothing by which it is another one.
func TestAdmissionHasTheServiceBehindBeTheOneThatIsRendered(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	behind := behindOf(t)
	annotated := edited(behind, func(s *corev1.Service) { s.Annotations, s.Finalizers = map[string]string{"a": "b"}, []string{"a/b"} })
	long := strings.Repeat("x", 50)
	const called, labels, kind, ports = "called …-sandbar-baseline", "three labels", "of the type ClusterIP", "32 ports of TCP"
	for name, c := range map[string]struct {
		before, after *corev1.Service
		namespace     string
		want          string
	}{
		"it comes":                  {nil, behind, "", ""},
		"it goes":                   {behind, nil, "", ""},
		"it is changed":             {behind, edited(behind, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), "", ""},
		"what others gave it stays": {annotated, edited(annotated, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), "", ""},
		"what others gave it goes":  {annotated, behind, "", labels},
		"with what Google gives it": {nil, edited(behind, func(s *corev1.Service) { s.Annotations = map[string]string{"cloud.google.com/neg": "{}"} }), "", ""},
		"of a long name":            {nil, edited(behind, func(s *corev1.Service) { s.Name, s.Labels = intercept.BaselineName(long), intercept.Labels(long) }), "", ""},
		"of a part of a long name": {nil, edited(behind, func(s *corev1.Service) {
			s.Name, s.Labels = intercept.BaselineName(long+"y"), intercept.Labels(strings.Repeat("y", 50))
		}), "", called},
		"one without labels goes": {edited(behind, func(s *corev1.Service) { s.Labels = nil }), nil, "", called},
		"of another Service":      {nil, edited(behind, func(s *corev1.Service) { s.Labels[intercept.LabelService] = "api" }), "", called},
		"it becomes another's":    {behind, edited(behind, func(s *corev1.Service) { s.Labels[intercept.LabelService] = "api" }), "", "selector alone"},
		"one more label":          {nil, edited(behind, func(s *corev1.Service) { s.Labels["scrape"] = "yes" }), "", labels},
		"another name of the app": {nil, edited(behind, func(s *corev1.Service) { s.Labels["app.kubernetes.io/name"] = "payments" }), "", labels},
		"an annotation":           {nil, edited(behind, func(s *corev1.Service) { s.Annotations = map[string]string{"tailscale.com/expose": "true"} }), "", labels},
		"an annotation later":     {behind, edited(behind, func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }), "", labels},
		"an owner":                {nil, edited(behind, func(s *corev1.Service) { s.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }), "", labels},
		"a finalizer":             {nil, edited(behind, func(s *corev1.Service) { s.Finalizers = []string{"x/y"} }), "", labels},
		"for the world":           {nil, edited(behind, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }), "", kind},
		"for the world later":     {behind, edited(behind, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }), "", kind},
		"another host": {nil, edited(behind, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "x.example"
		}), "", kind},
		"an address of its own":      {nil, edited(behind, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"8.8.8.8"} }), "", kind},
		"without an address":         {nil, edited(behind, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }), "", kind},
		"clients that stay":          {nil, edited(behind, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }), "", kind},
		"pods that are not ready":    {nil, edited(behind, func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }), "", kind},
		"the own node alone":         {nil, edited(behind, func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal) }), "", kind},
		"without a selector":         {nil, edited(behind, selecting(nil)), "", kind},
		"a port of nodes":            {nil, edited(behind, func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }), "", ports},
		"a port of UDP":              {nil, edited(behind, func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }), "", ports},
		"too many ports":             {nil, edited(behind, func(s *corev1.Service) { s.Spec.Ports = make([]corev1.ServicePort, 33) }), "", ports},
		"in a placement":             {nil, behind, ourPlacement, "in namespaces of Baselines only"},
		"in the provider's own":      {nil, behind, placement.SystemNamespace, "in namespaces of Baselines only"},
		"that is the owner's":        {nil, edited(behind, func(s *corev1.Service) { s.Name = "web" }), "", called},
		"that somebody has so named": {edited(liveService(t), func(s *corev1.Service) { s.Name = "x-sandbar-baseline" }), nil, "", called},
	} {
		t.Run(name, func(t *testing.T) {
			w := change{operation: admission.Update, resource: services, namespace: "prod"}
			if c.namespace != "" {
				w.namespace = c.namespace
			}
			if c.before == nil {
				w.operation, w.after, w.name = admission.Create, c.after, c.after.Name
			} else {
				w.before, w.name = c.before, c.before.Name
			}
			if c.before != nil && c.after == nil {
				w.operation = admission.Delete
			} else {
				w.after = c.after
			}
			a.wants(t, c.want, w)
		})
	}
}

// The attack: all requests of a Service reach the pods that the Service behind chooses. These are the owner's.
func TestAdmissionHasTheServiceBehindChooseTheOwnersPods(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	live, behind := liveService(t), behindOf(t)
	led := intercept.Switched(live, nil)
	api := edited(live, func(s *corev1.Service) { s.Name = "api"; s.Spec.Selector = map[string]string{"app": "api"} })
	merged := edited(led, func(s *corev1.Service) { s.Spec.Selector["app"] = "web2" })
	thief := edited(behind, selecting(map[string]string{"app": "thief", "tier": "front"}))
	more := edited(behind, func(s *corev1.Service) { s.Spec.Selector["x"] = "y" })
	less := edited(behind, selecting(map[string]string{"app": "web"}))
	const chose, led2, stays = "and no others", "is led to its proxies once", "stays as long as"
	for name, c := range map[string]struct {
		before, after *corev1.Service
		others        []*corev1.Service
		want          string
	}{
		"it comes before the switch":              {nil, behind, []*corev1.Service{api, live}, ""},
		"it comes after the switch":               {nil, behind, []*corev1.Service{led}, ""},
		"it comes with the pods of a thief":       {nil, thief, []*corev1.Service{api, live}, chose},
		"and after the switch":                    {nil, thief, []*corev1.Service{led, api}, chose},
		"with the pods of another Service":        {nil, edited(behind, selecting(api.Spec.Selector)), []*corev1.Service{api, live}, chose},
		"with fewer keys":                         {nil, less, []*corev1.Service{live}, chose},
		"with fewer keys after the switch":        {nil, less, []*corev1.Service{led}, chose},
		"with more keys":                          {nil, more, []*corev1.Service{live}, chose},
		"with more keys after the switch":         {nil, more, []*corev1.Service{led}, chose},
		"it is changed to the pods of a thief":    {behind, thief, []*corev1.Service{live}, chose},
		"and while requests are led":              {behind, thief, []*corev1.Service{led}, chose},
		"and while somebody has merged":           {behind, thief, []*corev1.Service{merged}, chose},
		"it follows its Service":                  {thief, behind, []*corev1.Service{live}, ""},
		"it stays as it is":                       {thief, edited(thief, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), []*corev1.Service{live}, ""},
		"it goes":                                 {behind, nil, []*corev1.Service{live, behind}, ""},
		"it goes with its Service":                {behind, nil, []*corev1.Service{api}, ""},
		"it goes while requests are led":          {behind, nil, []*corev1.Service{led}, stays},
		"it goes while somebody has merged":       {behind, nil, []*corev1.Service{merged}, stays},
		"the switch":                              {live, led, []*corev1.Service{live, api, behind}, ""},
		"the switch to the pods of a thief":       {live, led, []*corev1.Service{live, thief}, led2},
		"the switch with fewer keys":              {live, led, []*corev1.Service{less, live}, led2},
		"the switch beside another Service's":     {live, led, []*corev1.Service{live, edited(thief, func(s *corev1.Service) { s.Labels = intercept.Labels("api") })}, ""},
		"the restore from the pods of a thief":    {led, live, []*corev1.Service{led, thief}, ""},
		"the switch again to the pods of a thief": {led, edited(led, func(s *corev1.Service) { s.ResourceVersion = "9" }), []*corev1.Service{thief}, led2},
	} {
		t.Run(name, func(t *testing.T) {
			w := change{operation: admission.Update, resource: services, namespace: "prod", services: c.others}
			switch {
			case c.before == nil:
				w.operation, w.after, w.name = admission.Create, c.after, c.after.Name
			case c.after == nil:
				w.operation, w.before, w.name = admission.Delete, c.before, c.before.Name
			default:
				w.before, w.after, w.name = c.before, c.after, c.after.Name
			}
			a.wants(t, c.want, w)
		})
	}
}

// The attack: what has no label any more is not found by sandbar-provider baseline grant, and what is immutable cannot be corrected.
func TestAdmissionLeavesOfTheConfigMapsOfProxiesTheDataAlone(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	config := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "prod", Name: name, Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy},
			Annotations: map[string]string{placement.AnnotationProvider: testProvider},
		}}
	}
	for name, c := range map[string]struct {
		change func(m *corev1.ConfigMap)
		want   string
	}{
		"data":                  {func(m *corev1.ConfigMap) { m.Data = map[string]string{"web.json": "{}"} }, ""},
		"a label goes":          {func(m *corev1.ConfigMap) { m.Labels = nil }, "the data alone"},
		"a label comes":         {func(m *corev1.ConfigMap) { m.Labels["a"] = "b" }, "the data alone"},
		"the provider goes":     {func(m *corev1.ConfigMap) { m.Annotations = nil }, "the data alone"},
		"another provider":      {func(m *corev1.ConfigMap) { m.Annotations[placement.AnnotationProvider] = "thief" }, "the data alone"},
		"an owner":              {func(m *corev1.ConfigMap) { m.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, "the data alone"},
		"a finalizer":           {func(m *corev1.ConfigMap) { m.Finalizers = []string{"x/y"} }, "the data alone"},
		"it cannot be changed":  {func(m *corev1.ConfigMap) { m.Immutable = new(true) }, "the data alone"},
		"data of bytes":         {func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"a": []byte("b")} }, "the data alone"},
		"another version of it": {func(m *corev1.ConfigMap) { m.ResourceVersion = "9" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, of := range []string{wire.ConfigMap, intercept.RoutesConfigMap} {
				a.wants(t, c.want, change{operation: admission.Update, resource: configMaps, namespace: "prod", name: of, before: config(of), after: edited(config(of), c.change)})
			}
		})
	}
	for _, of := range []string{wire.ConfigMap, intercept.RoutesConfigMap} {
		a.wants(t, "write the ConfigMaps", change{operation: admission.Create, resource: configMaps, namespace: "prod", name: of, after: config(of)})
		a.wants(t, "write the ConfigMaps", change{operation: admission.Delete, resource: configMaps, namespace: "prod", name: of, before: config(of)})
	}
	a.wants(t, "immutable copies", change{operation: admission.Update, resource: configMaps, namespace: "prod", name: "settings", before: config("settings"), after: config("settings")})
}
