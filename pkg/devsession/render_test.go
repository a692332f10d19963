// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/golden"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const plainPod = `{containers: [{name: app, image: "ghcr.io/acme/shop:1", command: [node], args: [server.js], ports: [{name: http, containerPort: 8080}],
	env: [{name: PORT, value: "8080"}], resources: {limits: {cpu: "1", memory: 512Mi}}}]}`

// copyOf is the copy of a workload with this pod, as package clone renders it.
func copyOf(t testing.TB, pod string) *clone.Rendered {
	t.Helper()
	snapshot := &clone.Snapshot{Source: clone.Source{Group: "apps", Kind: "Deployment", Namespace: "prod-shop", Name: "frontend"}, Replicas: 2}
	snapshot.Template.Labels = map[string]string{"app": "frontend"}
	if err := yaml.UnmarshalStrict([]byte(pod), &snapshot.Template.Spec); err != nil {
		t.Fatal(err)
	}
	snapshot.ServicePorts = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}
	snapshot.ServicePorts[0].TargetPort.Type, snapshot.ServicePorts[0].TargetPort.StrVal = 1, "http"
	made, err := clone.Render(clone.Input{
		Group: "checkout", Component: &sandbarv1alpha1.SandboxGroupComponent{Name: "web"}, Snapshot: snapshot, SandboxID: "sbx-abcd1234",
		Labels: placement.ID{Origin: "2hx1zq5kq0a8v3mw", UID: "our-uid"}.Labels("sandbox-group"), Rules: clone.Rules{Baseline: "shop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func inputOf(t testing.TB, pod, spec string) Input {
	t.Helper()
	in := Input{Component: "web", Copy: copyOf(t, pod), RunnerImage: "registry.example.com/runner:1", Record: Record{Name: "try", UID: "session-uid", Stage: Beside}}
	if err := yaml.UnmarshalStrict([]byte(spec), &in.Record.Spec); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestWhatASessionIsMadeOf(t *testing.T) {
	for name, c := range map[string]struct{ pod, spec string }{
		"plain": {plainPod, `{targetPath: /app}`},
		"all-fields": {
			`{securityContext: {runAsUser: 2000, fsGroup: 3000}, initContainers: [{name: migrate, image: "ghcr.io/acme/shop:1"}],
			volumes: [{name: cache, emptyDir: {}}],
			containers: [{name: proxy, image: "envoy:1", ports: [{containerPort: 9090}]},
			{name: app, image: "ghcr.io/acme/shop:1", securityContext: {readOnlyRootFilesystem: true, runAsUser: 2001, capabilities: {drop: [ALL]}},
			 volumeMounts: [{name: cache, mountPath: /cache}], ports: [{name: http, containerPort: 8080}],
			 readinessProbe: {httpGet: {path: /ready, port: http}}, livenessProbe: {tcpSocket: {port: http}}, startupProbe: {tcpSocket: {port: http}},
			 lifecycle: {preStop: {sleep: {seconds: 5}}}}]}`,
			`{targetPath: /srv/$app, containerName: app, image: "ghcr.io/acme/shop-dev:1", command: [npm, run, dev],
			storage: {size: 2Gi, storageClassName: fast, accessModes: [ReadWriteMany]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputOf(t, c.pod, c.spec)
			before := in.Copy.Deployment.DeepCopy()
			first, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			second, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Error("two renders of one input differ", diff)
			}
			if !equality.Semantic.DeepEqual(before, in.Copy.Deployment) {
				t.Error("the copy was changed")
			}
			var text bytes.Buffer
			for _, part := range []any{first.Deployment, first.Service, first.Claims[0]} {
				out, err := yaml.Marshal(part)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&text, "---\n%s", out)
			}
			golden.Check(t, filepath.Join("testdata", "render", name+".golden.yaml"), text.Bytes())
		})
	}
}

// The attack on the switch: pods of the session that the Service of the copy, or its Deployment, would choose.
func TestThePodsOfASessionAreNotTheCopys(t *testing.T) {
	in := inputOf(t, plainPod, `{targetPath: /app}`)
	made, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	chosen := func(selector, labels map[string]string) bool {
		for name, value := range selector {
			if labels[name] != value {
				return false
			}
		}
		return len(selector) > 0
	}
	own, theirs := made.Deployment.Spec.Template.Labels, in.Copy.Deployment.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{
		"the copy's Service": in.Copy.Service.Spec.Selector, "the copy's Deployment": in.Copy.Deployment.Spec.Selector.MatchLabels,
	} {
		if chosen(selector, own) || !chosen(selector, theirs) {
			t.Errorf("%s chooses the session's pods", what)
		}
	}
	for what, selector := range map[string]map[string]string{
		"the control Service": made.Service.Spec.Selector, "the session's Deployment": made.Deployment.Spec.Selector.MatchLabels, "a Service that was switched": Selector("our-uid", "session-uid"),
	} {
		if chosen(selector, theirs) || !chosen(selector, own) {
			t.Errorf("%s does not choose the session's pods alone", what)
		}
	}
	for _, labels := range []map[string]string{own, made.Service.Labels, made.Claims[0].Labels} {
		if labels[placement.LabelInstanceUID] == "" || labels[placement.LabelDevelops] != "web" || labels[placement.LabelSessionUID] != "session-uid" {
			t.Errorf("the labels are %v", labels)
		}
	}
}

func TestWhatNoSessionCanBeMadeOf(t *testing.T) {
	pod := func(more string) string {
		return `{containers: [{name: app, image: a, command: [run], ports: [{name: http, containerPort: 8080}]` + more
	}
	const mounted = `, volumeMounts: [{name: v, mountPath: /data/x}]}], volumes: [{name: v, emptyDir: {}}]}`
	word := strings.Repeat("x", sandbarv1alpha1.MaxDevSessionWord)
	for name, c := range map[string]struct{ pod, spec, reason, says string }{
		"the root":                      {pod(`}]}`), `{targetPath: /}`, sandbarv1alpha1.DevSessionInvalidSpec, `spec.targetPath: "/" is not`},
		"a path that climbs":            {pod(`}]}`), `{targetPath: /app/../etc}`, sandbarv1alpha1.DevSessionInvalidSpec, "clean absolute path"},
		"a relative path":               {pod(`}]}`), `{targetPath: app}`, sandbarv1alpha1.DevSessionInvalidSpec, "clean absolute path"},
		"a long path":                   {pod(`}]}`), `{targetPath: /` + strings.Repeat("a", 256) + `}`, sandbarv1alpha1.DevSessionInvalidSpec, "257 characters, and 256 are the most"},
		"a path of the kernel's":        {pod(`}]}`), `{targetPath: /proc/self}`, sandbarv1alpha1.DevSessionInvalidSpec, "choose one that is not in /proc"},
		"a path of the kubelet's":       {pod(`}]}`), `{targetPath: /var/run/secrets/x}`, sandbarv1alpha1.DevSessionInvalidSpec, "not in /var/run/secrets"},
		"the runner's own":              {pod(`}]}`), `{targetPath: /sandbar}`, sandbarv1alpha1.DevSessionInvalidSpec, "not in /sandbar"},
		"a mount":                       {pod(mounted), `{targetPath: /data/x}`, sandbarv1alpha1.DevSessionInvalidSpec, `volume "v" at /data/x`},
		"a path in a mount":             {pod(mounted), `{targetPath: /data/x/y}`, sandbarv1alpha1.DevSessionInvalidSpec, `volume "v" at /data/x`},
		"a path with a mount below":     {pod(mounted), `{targetPath: /data}`, sandbarv1alpha1.DevSessionInvalidSpec, "neither lie in it nor hide it"},
		"a container that is not there": {pod(`}]}`), `{targetPath: /app, containerName: web}`, sandbarv1alpha1.DevSessionContainerNotFound, `no container "web"; it has app`},
		"no command":                    {`{containers: [{name: app, image: a, args: [x], ports: [{name: http, containerPort: 8080}]}]}`, `{targetPath: /app}`, sandbarv1alpha1.DevSessionCommandRequired, `container "app" names no command`},
		"an empty program":              {pod(`}]}`), `{targetPath: /app, command: [""]}`, sandbarv1alpha1.DevSessionInvalidSpec, "spec.command[0]: is empty"},
		"a long command":                {pod(`}]}`), `{targetPath: /app, command: [` + strings.Repeat(word+",", 5) + `]}`, sandbarv1alpha1.DevSessionInvalidSpec, "20480 bytes, and 16384 are the most"},
		"the runner's port":             {`{containers: [{name: app, image: a, command: [run], ports: [{name: http, containerPort: 7070}]}]}`, `{targetPath: /app}`, sandbarv1alpha1.DevSessionNotDevelopable, "port 7070"},
		"a variable of the runner's":    {pod(`, env: [{name: SANDBAR_WORKDIR, value: /x}]}]}`), `{targetPath: /app}`, sandbarv1alpha1.DevSessionNotDevelopable, "SANDBAR_WORKDIR"},
		"a volume of the runner's":      {pod(`}], volumes: [{name: sandbar-token, emptyDir: {}}]}`), `{targetPath: /app}`, sandbarv1alpha1.DevSessionNotDevelopable, "sandbar-token"},
		"a mount of the runner's":       {pod(`, volumeMounts: [{name: v, mountPath: /sandbar/bin}]}], volumes: [{name: v, emptyDir: {}}]}`), `{targetPath: /app}`, sandbarv1alpha1.DevSessionNotDevelopable, "/sandbar/bin"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Render(inputOf(t, c.pod, c.spec))
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Reason != c.reason || !strings.Contains(refused.Message, c.says) {
				t.Errorf("%v, want %s: %s", err, c.reason, c.says)
			}
		})
	}
}

// Two pods that write the files of one database destroy them.
func TestAWorkloadWithDataIsNotDeveloped(t *testing.T) {
	in := inputOf(t, plainPod, `{targetPath: /app}`)
	in.Copy.Deployment.Spec.Template.Spec.Volumes = append(in.Copy.Deployment.Spec.Template.Spec.Volumes, corev1.Volume{
		Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "checkout-web.data"}},
	})
	_, err := Render(in)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.DevSessionNotDevelopable || !strings.Contains(refused.Message, `"data"`) {
		t.Error(err)
	}
}

func TestWithoutARunnerThereAreNoSessions(t *testing.T) {
	in := inputOf(t, plainPod, `{targetPath: /app}`)
	in.RunnerImage = ""
	_, err := Render(in)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != sandbarv1alpha1.DevSessionProviderUnavailable {
		t.Error(err)
	}
	in.RunnerImage, in.Record.UID = "r", ""
	if _, err := Render(in); err == nil || errors.As(err, &refused) {
		t.Errorf("a session without a UID: %v", err)
	}
}

// An app without a port that is known counts as ready while it stays up. Of the runner's calls, the kubelet may make that one: it
// has no token.
func TestReadinessIsThatOfTheApp(t *testing.T) {
	for name, c := range map[string]struct {
		pod, path string
		port      int32
	}{
		"of one with a port":                {pod: plainPod, port: 8080},
		"of one whose Service is elsewhere": {pod: `{containers: [{name: side, image: s, command: [x]}, {name: app, image: a, ports: [{name: http, containerPort: 8080}]}]}`, path: "/healthz/app"},
	} {
		made, err := Render(inputOf(t, c.pod, `{targetPath: /app}`))
		if err != nil {
			t.Fatal(err)
		}
		probe := made.Deployment.Spec.Template.Spec.Containers[0].ReadinessProbe
		if c.port != 0 && (probe.TCPSocket == nil || probe.TCPSocket.Port.IntVal != c.port) || c.path != "" && (probe.HTTPGet == nil || probe.HTTPGet.Path != c.path || probe.HTTPGet.Port.IntVal != RunnerPort) {
			t.Errorf("%s: %+v", name, probe)
		}
	}
}
