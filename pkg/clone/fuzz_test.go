// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"encoding/json"
	"errors"
	"path"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// fuzzSources are the workloads that FuzzPatch patches.
var fuzzSources = []string{"storefront", "api", "worker", "host", "nfs", "plain"}

// FuzzPatch: with any patch of a tenant, the copy keeps the promises of sound, or is refused.
func FuzzPatch(f *testing.F) {
	for _, folder := range []string{"render", "refused"} {
		for _, row := range rows(f, folder) {
			patch, err := json.Marshal(row.Component.PodTemplatePatch)
			if err != nil {
				f.Fatal(err)
			}
			for i, name := range fuzzSources {
				if name == row.Source && len(row.Component.PodTemplatePatch) > 0 {
					f.Add(patch, uint8(i), len(row.Rules.References.Secrets.Names) > 0)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, patch []byte, source uint8, shares bool) {
		var operations []sandbarv1alpha1.PatchOperation
		if json.Unmarshal(patch, &operations) != nil {
			return
		}
		patched(t, operations, source, shares)
	})
}

// patched renders a copy with a patch.
func patched(t *testing.T, operations []sandbarv1alpha1.PatchOperation, source uint8, shares bool) {
	t.Helper()
	row := &row{Source: fuzzSources[int(source)%len(fuzzSources)]}
	row.Component = sandbarv1alpha1.SandboxGroupComponent{
		Name: "web", PodTemplatePatch: operations,
		Service: &sandbarv1alpha1.SandboxGroupService{Ports: ports("80/TCP")},
	}
	if shares {
		row.Rules.References.Secrets = sandbarv1alpha1.BaselineSharedSecrets{Policy: sandbarv1alpha1.BaselineCopy, Names: []string{"queue", "registry"}}
		row.Rules.References.ServiceAccount = sandbarv1alpha1.BaselineServiceAccountSame
	}
	rendered, err := Render(input(t, row))
	var refused *RefusedError
	if err != nil {
		if !errors.As(err, &refused) {
			t.Fatalf("an error that is not a refusal: %v", err)
		}
		return
	}
	sound(t, row, rendered)
	if _, err := json.Marshal(rendered.Deployment); err != nil {
		t.Fatal(err)
	}
}

// fuzzPaths and fuzzValues are what a patch of FuzzPatchOfFields is made of.
var (
	fuzzPaths = strings.Fields(`/spec/hostNetwork /spec/hostPID /spec/hostIPC /spec/hostUsers /spec/nodeName /spec/nodeSelector
		/spec/nodeSelector/pool /spec/nodeSelector/kubernetes.io~1hostname /spec/tolerations /spec/tolerations/- /spec/tolerations/0
		/spec/affinity /spec/priorityClassName /spec/priority /spec/runtimeClassName /spec/schedulerName /spec/schedulingGates
		/spec/serviceAccountName /spec/serviceAccount /spec/automountServiceAccountToken /spec/securityContext
		/spec/securityContext/runAsNonRoot /spec/securityContext/runAsUser /spec/ephemeralContainers /spec/imagePullSecrets
		/spec/imagePullSecrets/- /spec/resourceClaims /spec/volumes /spec/volumes/0 /spec/volumes/1 /spec/volumes/-
		/spec/volumes/0/hostPath /spec/volumes/0/emptyDir /spec/volumes/0/secret /spec/volumes/0/configMap /spec/volumes/0/projected
		/spec/volumes/0/projected/sources/0 /spec/volumes/0/projected/sources/- /spec/volumes/0/persistentVolumeClaim
		/spec/volumes/0/persistentVolumeClaim/claimName /spec/volumes/0/name /spec/containers /spec/containers/0 /spec/containers/1
		/spec/containers/- /spec/initContainers /spec/initContainers/- /spec/initContainers/0 /spec/containers/0/name
		/spec/containers/1/name /spec/containers/0/image /spec/containers/1/image /spec/containers/0/env /spec/containers/0/env/-
		/spec/containers/0/envFrom /spec/containers/0/ports /spec/containers/0/ports/0 /spec/containers/0/ports/0/hostPort
		/spec/containers/0/volumeMounts /spec/containers/0/volumeMounts/0 /spec/containers/0/volumeMounts/0/subPathExpr
		/spec/containers/0/volumeMounts/0/mountPropagation /spec/containers/0/securityContext
		/spec/containers/0/securityContext/privileged /spec/containers/0/securityContext/capabilities
		/spec/containers/0/securityContext/capabilities/add /spec/containers/0/securityContext/capabilities/drop
		/spec/containers/0/securityContext/allowPrivilegeEscalation /spec/containers/0/securityContext/runAsUser
		/spec/containers/1/securityContext /metadata/labels /metadata/labels/a /metadata/labels/sandbar.dev~1instance-uid
		/metadata/labels/sandbar.dev~1component /metadata/annotations /metadata/annotations/sandbar.dev~1a
		/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1app`)
	fuzzValues = strings.Split(`true|false|0|1|"a"|"admin"|"storefront"|""|{}|[]|{"a":"b"}|["ALL"]|["SYS_ADMIN"]|{"drop":["ALL"]}|{"add":["NET_BIND_SERVICE"]}
		|{"privileged":true}|{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}|{"runAsNonRoot":true}|{"runAsUser":0}|"Bidirectional"|"$(A)"
		|{"name":"root","hostPath":{"path":"/"}}|{"name":"config","hostPath":{"path":"/"},"configMap":{"name":"storefront"}}|{"path":"/"}
		|{"name":"a","emptyDir":{}}|{"name":"a","secret":{"secretName":"queue"}}|{"secretName":"db","optional":true}|{"name":"db","optional":true}|{"name":"db"}|{"name":"storefront"}
		|{"serviceAccountToken":{"path":"a"}}|{"secret":{"name":"db"}}|{"sources":[{"serviceAccountToken":{"path":"token","audience":"vault"}}]}
		|{"claimName":"storefront-preview-web.data"}|{"claimName":"theirs"}|"sandbar-control"|[{"name":"registry"}]|[{"secretRef":{"name":"db"}}]|[{"configMapRef":{"name":"storefront"}}]
		|{"name":"x","image":"evil"}|{"name":"app","image":"ghcr.io/acme/storefront:2"}|[{"name":"app","image":"ghcr.io/acme/storefront:2"}]|{"name":"agent","image":"ghcr.io/acme/agent:2","securityContext":{"privileged":true}}
		|"ghcr.io/acme/storefront:2"|"ghcr.io/acme/storefront@evil"|"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		|{"name":"A","valueFrom":{"secretKeyRef":{"name":"db","key":"a"}}}|{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}
		|{"containerPort":80,"hostPort":80}|[{"name":"e","image":"b"}]|{"operator":"Exists"}|[{"operator":"Exists"}]|{"kubernetes.io/hostname":"a"}|{"sandbar.dev/instance-uid":"other"}`, "|")
)

// FuzzPatchOfFields is FuzzPatch with the fields and values of attacks: three bytes are an operation.
func FuzzPatchOfFields(f *testing.F) {
	for i := range fuzzSources {
		for p := range fuzzPaths {
			f.Add([]byte{0, byte(p), byte(p*7 + i)}, uint8(i), p%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, source uint8, shares bool) {
		var operations []sandbarv1alpha1.PatchOperation
		for ; len(data) >= 3; data = data[3:] {
			path, value := fuzzPaths[int(data[1])%len(fuzzPaths)], strings.TrimSpace(fuzzValues[int(data[2])%len(fuzzValues)])
			operation := sandbarv1alpha1.PatchOperation{Op: []string{"add", "add", "replace", "remove", "move", "copy"}[int(data[0])%6], Path: path}
			switch operation.Op {
			case "add", "replace":
				operation.Value = &runtime.RawExtension{Raw: []byte(value)}
			case "move", "copy":
				operation.From = fuzzPaths[int(data[2])%len(fuzzPaths)]
			}
			operations = append(operations, operation)
		}
		patched(t, operations, source, shares)
	})
}

// FuzzImages: what a pattern admits has the pattern's registry and depth, and begins with what is before its first *.
func FuzzImages(f *testing.F) {
	for _, row := range imageRows {
		f.Add(row.pattern, row.image)
	}
	f.Fuzz(func(t *testing.T, pattern, image string) {
		repository, err := repositoryOf(image)
		if err != nil || !admitsRepository(pattern, repository) {
			return
		}
		wanted := canonical(pattern)
		fixed, _, _ := strings.Cut(wanted, "*")
		bare, _, _ := strings.Cut(canonical(image), "@")
		switch {
		case !strings.HasPrefix(bare, fixed):
			t.Errorf("%q admits %q, which does not begin with %q", pattern, image, fixed)
		case strings.Count(wanted, "/") != strings.Count(bare, "/"):
			t.Errorf("%q admits %q, which is at another depth", pattern, image)
		case path.Clean(bare) != bare:
			t.Errorf("%q admits %q, which has another way to it", pattern, image)
		case strings.HasPrefix(image, "sha256:"):
			t.Errorf("%q admits %q, which has no repository", pattern, image)
		}
	})
}
