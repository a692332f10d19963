// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

func catalogueOf() client.Baseline {
	of := func(kind, namespace, name string, containers ...string) client.BaselineWorkload {
		w := client.BaselineWorkload{APIVersion: "apps/v1", Kind: kind, Namespace: namespace, Name: name}
		for _, c := range containers {
			w.Containers = append(w.Containers, client.BaselineContainer{Name: c})
		}
		return w
	}
	workloads := []client.BaselineWorkload{
		of("Deployment", "shop", "web", "app", "proxy"), of("StatefulSet", "shop", "api", "app", "db"), of("Deployment", "pay", "api", "app"),
		of("Deployment", "shop", "twice", "app"), of("StatefulSet", "shop", "twice", "app"), of("Deployment", "shop", "unknown"),
		of("Deployment", "shop", "a-name-that-is-longer-than-thirty", "app"),
	}
	return client.Baseline{
		Name: "shop", Workloads: workloads, ServicesFound: 3,
		Services: []client.BaselineService{{Namespace: "shop", Name: "web"}, {Namespace: "shop", Name: "api"}, {Namespace: "pay", Name: "api"}},
		Routing:  &client.BaselineRouting{Gateways: []client.BaselineGateway{{Namespace: "edge", Name: "public", SectionName: "tls"}}, Hostnames: []string{"*.example.com"}},
	}
}

func TestACloneIsASandboxOfWhatTheBaselineHas(t *testing.T) {
	for name, row := range map[string]struct {
		texts CloneTexts
		want  string // YAML of the workloads
	}{
		"one, as it is": {
			CloneTexts{Workloads: []string{"shop/web"}},
			`[{name: web, type: inherit, inherit: {sourceRef: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}}}]`,
		},
		"two, with all that can be changed": {
			CloneTexts{
				Workloads: []string{"front=shop/web", "shop/pay/api"}, Images: []string{"front/app=ghcr.io/acme/web:2", "proxy=envoy:1"},
				Env: []string{"front/app:URL=http://x:8080/?a=b", "front/app:EMPTY="}, Replicas: []string{"api=0", "front=2"},
			},
			`[{name: front, type: inherit, inherit: {sourceRef: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}, overrides: {replicas: 2, containers: [
				{name: app, image: "ghcr.io/acme/web:2", env: [{name: URL, value: "http://x:8080/?a=b"}, {name: EMPTY}]}, {name: proxy, image: "envoy:1"}]}}},
			{name: api, type: inherit, inherit: {sourceRef: {apiVersion: apps/v1, kind: Deployment, name: api, namespace: pay}, overrides: {replicas: 0}}}]`,
		},
		"a workload of which the catalogue lists no container": {
			CloneTexts{Workloads: []string{"shop/unknown"}, Images: []string{"unknown/app=x"}},
			`[{name: unknown, type: inherit, inherit: {sourceRef: {apiVersion: apps/v1, kind: Deployment, name: unknown, namespace: shop}, overrides: {containers: [{name: app, image: x}]}}}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			clone, err := row.texts.Parse()
			if err != nil {
				t.Fatal(err)
			}
			got, err := clone.Spec(catalogueOf())
			if err != nil {
				t.Fatal(err)
			}
			want := &sandbarv1alpha1.SandboxWorkloadsSpec{}
			if err := yaml.UnmarshalStrict([]byte("{baselineRef: {name: shop}, workloads: "+row.want+"}"), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestACloneOfABaselineThatShowsNothingSaysWhomToAsk(t *testing.T) {
	clone, err := CloneTexts{Workloads: []string{"shop/web"}}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	_, err = clone.Spec(client.Baseline{Name: "shop"})
	if want := "the Baseline shop shows no workloads now; try again in a minute, and ask the operator if sandbar baselines shop says"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it says %v, want %q", err, want)
	}
}

func TestACloneThatCannotBeSaysWhatToWrite(t *testing.T) {
	web := []string{"shop/web"}
	for want, texts := range map[string]CloneTexts{
		"name the workloads to copy as BASELINE/WORKLOAD":                                           {},
		`"web": write BASELINE/WORKLOAD, or BASELINE/NAMESPACE/WORKLOAD`:                            {Workloads: []string{"web"}},
		`"a/b/c/d": write BASELINE/WORKLOAD`:                                                        {Workloads: []string{"a/b/c/d"}},
		`"shop/": write BASELINE/WORKLOAD`:                                                          {Workloads: []string{"shop/"}},
		`"bank/api" is of the Baseline bank, and the ones before are of shop`:                       {Workloads: []string{"shop/web", "bank/api"}},
		"put a name of at most 30 of a-z, 0-9 and - before it: NAME=shop/a-name":                    {Workloads: []string{"shop/a-name-that-is-longer-than-thirty"}},
		"there is a copy called web already; put another name before it: NAME=shop/web":             {Workloads: []string{"shop/web", "shop/web"}},
		`image "app": write CONTAINER=IMAGE`:                                                        {Workloads: web, Images: []string{"app"}},
		"a variable is written CONTAINER:NAME=VALUE":                                                {Workloads: web, Env: []string{"app=hunter2"}},
		`replicas "two": write WORKLOAD=NUMBER, such as web=1`:                                      {Workloads: web, Replicas: []string{"two"}},
		`replicas "web=-1": write WORKLOAD=NUMBER`:                                                  {Workloads: web, Replicas: []string{"web=-1"}},
		`replicas "api=1": there is no workload api; there is web`:                                  {Workloads: web, Replicas: []string{"api=1"}},
		"Baseline shop has no workload nothing; it has web, api, twice, unknown":                    {Workloads: []string{"shop/nothing"}},
		"Baseline shop has no workload web in the namespace pay; sandbar baselines shop lists":      {Workloads: []string{"shop/pay/web"}},
		"several workloads api: StatefulSet shop/api, Deployment pay/api; write shop/NAMESPACE/api": {Workloads: []string{"shop/api"}},
		"several workloads twice: Deployment shop/twice, StatefulSet shop/twice; print the Sandbox": {Workloads: []string{"shop/shop/twice"}},
		"no workload has the container main: web has app, proxy":                                    {Workloads: web, Images: []string{"main=x"}},
		"no workload has the container api/app: web has app, proxy":                                 {Workloads: web, Images: []string{"api/app=x"}},
		"several workloads have a container app: write web/app":                                     {Workloads: []string{"shop/web", "shop/pay/api"}, Env: []string{"app:A=b"}},
	} {
		clone, err := texts.Parse()
		if err == nil {
			_, err = clone.Spec(catalogueOf())
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: it says %v, want %q", texts, err, want)
		}
	}
}
