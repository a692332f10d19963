// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/golden"
)

var rules = Rules{
	Labels:             map[string]string{"sandbar.dev/instance-uid": "our-uid"},
	RuntimeClassName:   "gvisor",
	LabelPrefixes:      []string{"apps.example.com/"},
	AnnotationPrefixes: []string{"notes.example.com/"},
	PodSecurity:        "restricted",
	Bounds: Bounds{
		Min:            resources("1m", "4Mi", "1Mi"),
		Max:            resources("8", "16Gi", "40Gi"),
		Default:        resources("2", "2Gi", "4Gi"),
		Request:        resources("50m", "128Mi", "64Mi"),
		Requests:       resources("4", "8Gi", "10Gi"),
		Resources:      []corev1.ResourceName{"cpu", "ephemeral-storage", "memory", "operator.example.com/gpu"},
		EmptyDir:       Sizes{resource.MustParse("4Gi"), resource.MustParse("8Gi")},
		MemoryEmptyDir: Sizes{resource.MustParse("256Mi"), resource.MustParse("1Gi")},
	},
}

func resources(cpu, memory, disk string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourceEphemeralStorage: resource.MustParse(disk),
	}
}

// offered is a base in which the operator says what a tenant may not.
const offered = `
metadata: {labels: {base.example.com/of: operator}, annotations: {scheduler.example.com/pool: warm}}
spec:
  nodeSelector: {pool: sandboxes}
  tolerations: [{key: sandbox, operator: Exists}]
  priorityClassName: sandboxes
  terminationGracePeriodSeconds: 5
  containers:
  - {name: main, image: "node:24", env: [{name: A, value: "1"}, {name: B, value: "2"}]}
  - {name: side, image: "side:1"}
  volumes:
  - {name: shared, csi: {driver: operator.example.com}}
  - {name: cache, emptyDir: {medium: Memory, sizeLimit: 3Gi}}
`

func source(t testing.TB, text string) *sandbarv1alpha1.PodTemplateSource {
	t.Helper()
	var field map[string]any
	if err := yaml.Unmarshal([]byte(text), &field); err != nil {
		t.Fatal(err)
	}
	s, err := NewSource(field)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func base(t testing.TB) *Base {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(offered))
	if err != nil {
		t.Fatal(err)
	}
	volume := sandbarv1alpha1.VolumeClaimTemplate{Metadata: sandbarv1alpha1.VolumeClaimMetadata{Name: "home"}}
	volume.Spec.Resources.Requests.Storage = "1Gi"
	b, err := NewBase(&sandbarv1alpha1.PodTemplateBase{
		PodTemplate: runtime.RawExtension{Raw: raw}, VolumeClaimTemplates: []sandbarv1alpha1.VolumeClaimTemplate{volume},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The golden files show what a graph gets.
func TestWhatIsBuilt(t *testing.T) {
	for name, text := range map[string]string{
		"a-pod-that-says-nothing-is-secured": `podTemplate: {spec: {containers: [{name: main, image: "node:24"}]}}`,
		"what-is-said-of-security-stays": `
podTemplate:
  spec:
    securityContext: {runAsUser: 33, fsGroup: 44, seccompProfile: {type: Unconfined}}
    initContainers: [{name: first, image: "a:1", securityContext: {capabilities: {drop: [NET_RAW]}}}]
    containers: [{name: main, image: "a:1", securityContext: {privileged: true, capabilities: {add: [SYS_ADMIN]}}}]`,
		"root-gets-no-user": `podTemplate: {spec: {securityContext: {runAsNonRoot: false}, containers: [{name: main, image: "a:1"}]}}`,
		"volumes-have-the-form-of-a-statefulset": `
podTemplate: {metadata: {labels: {app: web, apps.example.com/tier: front}, annotations: {notes.example.com/a: b}}, spec: {containers: [{name: main, image: "a:1", volumeMounts: [{name: data, mountPath: /data}]}]}}
volumeClaimTemplates:
- {metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}
- {metadata: {name: fast}, spec: {accessModes: [ReadWriteOncePod], storageClassName: ssd, resources: {requests: {storage: 64Mi}}}}`,
		"a-patch-merges-lists-by-name": `
templateRef: {name: t}
patch: {metadata: {labels: {app: mine}}, spec: {containers: [{name: main, env: [{name: B, value: "two"}, {name: C, value: "3"}]}]}}`,
		"a-patch-deletes-with-a-directive": `
templateRef: {name: t}
patch: {spec: {containers: [{name: side, $patch: delete}]}}
volumeClaimTemplates: [{metadata: {name: home}, spec: {resources: {requests: {storage: 5Gi}}}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, text)
			var b *Base
			if s.TemplateRef != nil {
				b = base(t)
			}
			pod, err := Build(s, b, nil, rules)
			if err != nil {
				t.Fatal(err)
			}
			fields, err := pod.Fields()
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", name+".golden.yaml"), got)
			if claims, err := FormerVolumes(fields); err != nil || len(claims) != len(pod.VolumeClaimTemplates) {
				t.Errorf("the volumes read back are %v, %v", claims, err)
			}
		})
	}
}

// own is a tenant's pod with more in its spec.
func own(more string) string {
	return `{podTemplate: {spec: {containers: [{name: main, image: a}]` + more + `}}}`
}

// container is a tenant's pod with more in its container.
func container(more string) string {
	return `{podTemplate: {spec: {containers: [{name: main, image: a, ` + more + `}]}}}`
}

func patched(patch string) string {
	return `{podTemplate: {spec: {containers: [{name: main, image: a}]}}, patch: ` + patch + `}`
}

func ofBase(patch string) string { return `{templateRef: {name: t}, patch: ` + patch + `}` }

var refusals = map[string]struct {
	source string
	field  string
	// early: the API server refuses it when it is written.
	early bool
}{
	"a service account":                        {own(`, serviceAccountName: a`), "spec.serviceAccountName", true},
	"hundreds of containers":                   {own(`, initContainers: [` + strings.Repeat("{name: i}, ", 31) + `{name: i}]`), "spec.containers", false},
	"hundreds of volumes":                      {own(`, volumes: [` + strings.Repeat("{name: v, emptyDir: {sizeLimit: 1}}, ", 64) + `{name: v, emptyDir: {sizeLimit: 1}}]`), "spec.volumes", false},
	"a service account by its old name":        {own(`, serviceAccount: a`), "spec.serviceAccount", true},
	"a token":                                  {own(`, automountServiceAccountToken: true`), "spec.automountServiceAccountToken", true},
	"the host's network":                       {own(`, hostNetwork: true`), "spec.hostNetwork", true},
	"the host's processes":                     {own(`, hostPID: true`), "spec.hostPID", true},
	"the host's memory":                        {own(`, hostIPC: true`), "spec.hostIPC", true},
	"a node":                                   {own(`, nodeName: a`), "spec.nodeName", true},
	"a node by labels":                         {own(`, nodeSelector: {a: b}`), "spec.nodeSelector", true},
	"a place beside another's pod":             {own(`, affinity: {podAffinity: {}}`), "spec.affinity", true},
	"a tainted node":                           {own(`, tolerations: [{operator: Exists}]`), "spec.tolerations", true},
	"a spread":                                 {own(`, topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]`), "spec.topologySpreadConstraints", true},
	"a scheduler":                              {own(`, schedulerName: a`), "spec.schedulerName", true},
	"a gate":                                   {own(`, schedulingGates: [{name: a}]`), "spec.schedulingGates", true},
	"a priority class":                         {own(`, priorityClassName: a`), "spec.priorityClassName", true},
	"a priority":                               {own(`, priority: 1`), "spec.priority", true},
	"a policy of preemption":                   {own(`, preemptionPolicy: Never`), "spec.preemptionPolicy", true},
	"a device":                                 {own(`, resourceClaims: [{name: a}]`), "spec.resourceClaims", false},
	"another runtime class":                    {own(`, runtimeClassName: runc`), "spec.runtimeClassName", false},
	"a pod that ends":                          {own(`, restartPolicy: Never`), "spec.restartPolicy", true},
	"a deadline":                               {own(`, activeDeadlineSeconds: 1`), "spec.activeDeadlineSeconds", true},
	"an end that takes hours":                  {own(`, terminationGracePeriodSeconds: 301`), "spec.terminationGracePeriodSeconds", true},
	"a debugging container":                    {own(`, ephemeralContainers: [{name: a}]`), "spec.ephemeralContainers", false},
	"the node's files":                         {own(`, volumes: [{name: a, hostPath: {path: /}}]`), "spec.volumes[0].hostPath", false},
	"a file server, past the network policies": {own(`, volumes: [{name: a, nfs: {server: b, path: /}}]`), "spec.volumes[0].nfs", false},
	"a driver":                                 {own(`, volumes: [{name: a, csi: {driver: b}}]`), "spec.volumes[0].csi", false},
	"a token in a volume":                      {own(`, volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: b}}]}}]`), "spec.volumes[0].projected.sources[0].serviceAccountToken", false},
	"the label that says whose it is":          {`{podTemplate: {metadata: {labels: {sandbar.dev/instance-uid: forged}}, spec: {containers: [{name: a}]}}}`, `metadata.labels["sandbar.dev/instance-uid"]`, false},
	"a label of a domain":                      {`{podTemplate: {metadata: {labels: {sidecar.istio.io/inject: "false"}}, spec: {containers: [{name: a}]}}}`, `metadata.labels["sidecar.istio.io/inject"]`, false},
	"an annotation that orders the runtime about":  {`{podTemplate: {metadata: {annotations: {dev.gvisor.spec.mount.a.type: bind}}, spec: {containers: [{name: a}]}}}`, `metadata.annotations["dev.gvisor.spec.mount.a.type"]`, false},
	"a probe of the node's network":                {`{podTemplate: {spec: {containers: [{name: a, livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}}]}}}`, "spec.containers[0].livenessProbe.httpGet.host", false},
	"a probe by TCP":                               {`{podTemplate: {spec: {containers: [{name: a, startupProbe: {tcpSocket: {host: 10.0.0.1, port: 80}}}]}}}`, "spec.containers[0].startupProbe.tcpSocket.host", false},
	"a hook into the node's network":               {`{podTemplate: {spec: {initContainers: [{name: b}], containers: [{name: a, lifecycle: {preStop: {httpGet: {host: b, port: 80}}}}]}}}`, "spec.containers[0].lifecycle.preStop.httpGet.host", false},
	"a port of the host":                           {`{podTemplate: {spec: {containers: [{name: a, ports: [{containerPort: 80, hostPort: 80}]}]}}}`, "spec.containers[0].ports[0].hostPort", false},
	"more grace for a probe":                       {container(`livenessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 301}`), "spec.containers[0].livenessProbe.terminationGracePeriodSeconds", false},
	"the node's resolver":                          {own(`, dnsPolicy: Default`), "spec.dnsPolicy", false},
	"the resolver of the host's network":           {own(`, dnsPolicy: ClusterFirstWithHostNet`), "spec.dnsPolicy", false},
	"Windows":                                      {own(`, os: {name: windows}`), "spec.os.name", false},
	"a part of what its node mounts":               {container(`volumeMounts: [{name: a, mountPath: /a, mountPropagation: Bidirectional}]`), "spec.containers[0].volumeMounts[0].mountPropagation", false},
	"all of /proc":                                 {container(`securityContext: {procMount: Unmasked}`), "spec.containers[0].securityContext.procMount", false},
	"a profile of the node":                        {own(`, securityContext: {seccompProfile: {type: Localhost, localhostProfile: mine.json}}`), "spec.securityContext.seccompProfile.localhostProfile", false},
	"another sandbox's SELinux label":              {own(`, securityContext: {seLinuxOptions: {level: "s0:c1,c2"}}`), "spec.securityContext.seLinuxOptions", false},
	"the node's name":                              {container(`env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]`), "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", false},
	"the node's address":                           {container(`env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]`), "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", false},
	"the node's addresses, in a volume":            {own(`, volumes: [{name: a, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: status.hostIPs}}]}}]`), "spec.volumes[0].downwardAPI.items[0].fieldRef.fieldPath", false},
	"the node's address, in a projected volume":    {own(`, volumes: [{name: a, projected: {sources: [{downwardAPI: {items: [{path: a, fieldRef: {fieldPath: status.hostIP}}]}}]}}]`), "spec.volumes[0].projected.sources[0].downwardAPI.items[0].fieldRef.fieldPath", false},
	"the node's root group":                        {own(`, securityContext: {runAsGroup: 0}`), "spec.securityContext.runAsGroup", false},
	"the node's root group, of one container":      {container(`securityContext: {runAsGroup: 0}`), "spec.containers[0].securityContext.runAsGroup", false},
	"the node's root group besides":                {own(`, securityContext: {supplementalGroups: [1000, 0]}`), "spec.securityContext.supplementalGroups", false},
	"volumes of the node's root group":             {own(`, securityContext: {fsGroup: 0}`), "spec.securityContext.fsGroup", false},
	"root's group with the host's users, by name":  {own(`, hostUsers: true, securityContext: {fsGroup: 0}`), "spec.securityContext.fsGroup", false},
	"the control token in a volume":                {own(`, volumes: [{name: a, secret: {secretName: sandbar-control}}]`), "spec.volumes[0].secret.secretName", false},
	"the control token in a projected volume":      {own(`, volumes: [{name: a, projected: {sources: [{secret: {name: sandbar-control}}]}}]`), "spec.volumes[0].projected.sources[0].secret.name", false},
	"the control token in a variable":              {container(`env: [{name: A, valueFrom: {secretKeyRef: {name: sandbar-control, key: token}}}]`), "spec.containers[0].env[0].valueFrom.secretKeyRef.name", false},
	"the control token in all variables":           {container(`envFrom: [{secretRef: {name: sandbar-control}}]`), "spec.containers[0].envFrom[0].secretRef.name", false},
	"no memory, which is all of it":                {container(`resources: {limits: {memory: "0"}}`), "spec.containers[0].resources.limits[memory]", false},
	"no memory in thousandths":                     {container(`resources: {limits: {memory: 0m}}`), "spec.containers[0].resources.limits[memory]", false},
	"a thousandth of a byte":                       {container(`resources: {limits: {memory: 1m}}`), "spec.containers[0].resources.limits[memory]", false},
	"no request, which no quota counts":            {container(`resources: {requests: {cpu: 0}}`), "spec.containers[0].resources.requests[cpu]", false},
	"less than nothing":                            {container(`resources: {limits: {cpu: "-1"}}`), "spec.containers[0].resources.limits[cpu]", false},
	"a tenth of a millicore":                       {container(`resources: {requests: {cpu: 100u}}`), "spec.containers[0].resources.requests[cpu]", false},
	"more memory than there is":                    {container(`resources: {limits: {memory: "1e30"}}`), "spec.containers[0].resources.limits[memory]", false},
	"more disk than a placement may have":          {container(`resources: {limits: {ephemeral-storage: 41Gi}}`), "spec.containers[0].resources.limits[ephemeral-storage]", false},
	"disk without a limit":                         {container(`resources: {limits: {ephemeral-storage: "0"}}`), "spec.containers[0].resources.limits[ephemeral-storage]", false},
	"pages that no quota counts":                   {container(`resources: {limits: {hugepages-2Mi: 2Mi}}`), "spec.containers[0].resources.limits[hugepages-2Mi]", false},
	"a device that no quota counts":                {container(`resources: {limits: {other.example.com/gpu: 1}}`), "spec.containers[0].resources.limits[other.example.com/gpu]", false},
	"a device by a claim":                          {container(`resources: {claims: [{name: a}]}`), "spec.containers[0].resources.claims", false},
	"no memory for the first container":            {`{podTemplate: {spec: {initContainers: [{name: b, resources: {limits: {memory: 0}}}], containers: [{name: a}]}}}`, "spec.initContainers[0].resources.limits[memory]", false},
	"the pod's own resources":                      {own(`, resources: {limits: {memory: 100Gi}}`), "spec.resources", false},
	"an overhead of nothing":                       {own(`, overhead: {cpu: "0"}`), "spec.overhead", false},
	"a volume in memory without a limit":           {own(`, volumes: [{name: a, emptyDir: {medium: Memory, sizeLimit: "0"}}]`), "spec.volumes[0].emptyDir.sizeLimit", false},
	"a volume in memory of a disk's size":          {own(`, volumes: [{name: a, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]`), "spec.volumes[0].emptyDir.sizeLimit", false},
	"a volume of less than nothing":                {own(`, volumes: [{name: a, emptyDir: {sizeLimit: "-1"}}]`), "spec.volumes[0].emptyDir.sizeLimit", false},
	"a volume larger than disks":                   {own(`, volumes: [{name: a, emptyDir: {sizeLimit: "1e30"}}]`), "spec.volumes[0].emptyDir.sizeLimit", false},
	"a volume of hugepages":                        {own(`, volumes: [{name: a, emptyDir: {medium: HugePages-2Mi}}]`), "spec.volumes[0].emptyDir.medium", false},
	"a volume that goes with the pod":              {own(`, volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {resources: {requests: {storage: 1Ti}}}}}}]`), "spec.volumes[0].ephemeral", false},
	"a repository that the node clones":            {own(`, volumes: [{name: a, gitRepo: {repository: b}}]`), "spec.volumes[0].gitRepo", false},
	"no memory by a patch":                         {patched(`{spec: {containers: [{name: main, resources: {limits: {memory: 0}}}]}}`), "spec.containers[0].resources.limits[memory]", false},
	"no memory by a patch of a base":               {ofBase(`{spec: {containers: [{name: main, resources: {limits: {memory: 0}}}]}}`), "spec.containers[0].resources.limits[memory]", false},
	"the operator's volume in memory, enlarged":    {ofBase(`{spec: {volumes: [{name: cache, emptyDir: {sizeLimit: 5Gi}}]}}`), "spec.volumes[1].emptyDir.sizeLimit", false},
	"a patch to the host's network":                {patched(`{spec: {hostNetwork: true}}`), "spec.hostNetwork", false},
	"a patch with a misspelt field":                {patched(`{spec: {contaners: []}}`), "patch", false},
	"a patch of another type":                      {patched(`{spec: {containers: 3}}`), "patch", false},
	"a patch with an unknown directive":            {patched(`{spec: {$patch: explode}}`), "patch", false},
	"a patch of a list without its key":            {patched(`{spec: {containers: [{image: b}]}}`), "patch", false},
	"a patch of a list whose key is no text":       {patched(`{spec: {containers: [{name: {}}]}}`), "patch", false},
	"a patch that names the pod":                   {patched(`{metadata: {name: a}}`), "metadata", false},
	"a patch with an owner":                        {patched(`{metadata: {finalizers: [a]}}`), "metadata", false},
	"a patch that is too long":                     {patched(`{metadata: {labels: {a: "` + strings.Repeat("a", MaxPatchBytes) + `"}}}`), "patch", false},
	"the operator's nodes, patched":                {ofBase(`{spec: {nodeSelector: {pool: system}}}`), "spec.nodeSelector", false},
	"the operator's nodes, removed":                {ofBase(`{spec: {nodeSelector: null}}`), "spec.nodeSelector", false},
	"the operator's priority, patched":             {ofBase(`{spec: {priorityClassName: system-node-critical}}`), "spec.priorityClassName", false},
	"the operator's volume, turned":                {ofBase(`{spec: {volumes: [{name: shared, csi: {driver: operator.example.com, volumeAttributes: {share: others}}}]}}`), "spec.volumes[0].csi", false},
	"the operator's annotation with another value": {ofBase(`{metadata: {annotations: {scheduler.example.com/pool: hot}}}`), `metadata.annotations["scheduler.example.com/pool"]`, false},
	"the operator's label with another value":      {ofBase(`{metadata: {labels: {base.example.com/of: me}}}`), `metadata.labels["base.example.com/of"]`, false},
}

func TestWhatIsRefused(t *testing.T) {
	for name, row := range refusals {
		t.Run(name, func(t *testing.T) {
			s := source(t, row.source)
			var b *Base
			if s.TemplateRef != nil {
				b = base(t)
			}
			_, err := Build(s, b, nil, rules)
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("err = %v, want a refusal", err)
			}
			if len(refused.Problems) != 1 || !strings.HasPrefix(refused.Problems[0], row.field+":") {
				t.Errorf("it says %q, want one problem, with %s", refused.Problems, row.field)
			}
		})
	}
}

func TestWhatTheOperatorsBaseSaysIsAllowed(t *testing.T) {
	pod, err := Build(source(t, ofBase(`{}`)), base(t), nil, rules)
	if err != nil {
		t.Fatal(err)
	}
	if pod.Template.Spec.PriorityClassName != "sandboxes" || pod.Template.Annotations["scheduler.example.com/pool"] != "warm" {
		t.Errorf("the pod is %+v", pod.Template)
	}
}

func TestABaseThatCannotBe(t *testing.T) {
	for name, text := range map[string]string{
		"a misspelt field":  `{"spec": {"contaners": []}}`,
		"a service account": `{"spec": {"serviceAccountName": "a", "containers": [{"name": "a"}]}}`,
		"no container":      `{"spec": {}}`,
		"no object":         `3`,
	} {
		if _, err := NewBase(&sandbarv1alpha1.PodTemplateBase{PodTemplate: runtime.RawExtension{Raw: []byte(text)}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestVolumesThatExistStay(t *testing.T) {
	former := []sandbarv1alpha1.VolumeClaimTemplate{}
	pod, err := Build(source(t, ofBase(`{}`)), base(t), former, rules)
	if err != nil {
		t.Fatal(err)
	}
	if len(pod.VolumeClaimTemplates) != 0 {
		t.Errorf("the base's new volume came: %v", pod.VolumeClaimTemplates)
	}
}

func TestASampleHasTheVolumes(t *testing.T) {
	pod, err := Build(source(t, `
podTemplate: {spec: {containers: [{name: main, image: a}]}}
volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]`), nil, nil, rules)
	if err != nil {
		t.Fatal(err)
	}
	sample := pod.Sample("sb-x")
	if len(sample.Spec.Volumes) != 1 || sample.Spec.Volumes[0].Name != "data" || sample.Namespace != "sb-x" {
		t.Errorf("the sample is %+v", sample)
	}
	sample.Spec.Containers[0].Image = "b"
	if pod.Template.Spec.Containers[0].Image != "a" {
		t.Error("the template itself has changed")
	}
}

func TestALongRefusalIsBounded(t *testing.T) {
	r := &RefusedError{Problems: make([]string, maxProblems+2)}
	if !strings.HasSuffix(r.Error(), "and 2 more") {
		t.Errorf("it says %q", r.Error())
	}
}

// FuzzBuild: whatever a tenant patches, the pod that comes out is labelled as its own and has
// nothing of the host.
func FuzzBuild(f *testing.F) {
	for _, row := range refusals {
		s := source(f, row.source)
		if s.Patch != nil {
			f.Add(s.Patch.Raw, s.TemplateRef != nil)
		}
	}
	f.Add([]byte(`{"spec":{"$setElementOrder/containers":[{"name":"side"},{"name":"main"}],"$retainKeys":["containers"]}}`), true)
	f.Add([]byte(`{"spec":{"containers":[{"$patch":"replace"},{"name":"x"}]}}`), true)
	f.Add([]byte(`{"$patch":"delete"}`), false)
	f.Add([]byte(`{"metadata":{"labels":{"$patch":"replace"}}}`), false)
	f.Fuzz(func(t *testing.T, patch []byte, fromBase bool) {
		var b *Base
		s := &sandbarv1alpha1.PodTemplateSource{Patch: &runtime.RawExtension{Raw: patch}}
		if fromBase {
			s.TemplateRef = &sandbarv1alpha1.PodTemplateRef{Name: "t"}
			b = base(t)
		} else {
			s.PodTemplate = source(t, own("")).PodTemplate
		}
		pod, err := Build(s, b, nil, rules)
		var refused *RefusedError
		if err != nil {
			if !errors.As(err, &refused) {
				t.Fatalf("an error that is no refusal: %v", err)
			}
			return
		}
		spec := &pod.Template.Spec
		if pod.Template.Labels["sandbar.dev/instance-uid"] != "our-uid" || spec.HostNetwork || spec.HostPID || spec.HostIPC ||
			spec.ServiceAccountName != "" || isTrue(spec.AutomountServiceAccountToken) || *spec.RuntimeClassName != "gvisor" {
			t.Errorf("the pod is %+v", pod.Template)
		}
		for _, v := range spec.Volumes {
			if v.HostPath != nil {
				t.Errorf("a volume of the host's: %+v", v)
			}
		}
		if fromBase && spec.PriorityClassName != "sandboxes" {
			t.Errorf("the priority is %q", spec.PriorityClassName)
		}
		fields, err := pod.Fields()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(fields); err != nil {
			t.Fatal(err)
		}
	})
}
