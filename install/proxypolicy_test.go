// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

// servedDeployment is a Deployment as an API server has given it back, with all that it fills in.
func servedDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	text, err := os.ReadFile("../pkg/intercept/testdata/live-deployment.json")
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := yaml.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	// The Deployment's own controller writes it, after the controllers.
	delete(d.Annotations, "deployment.kubernetes.io/revision")
	d.Annotations["sandbar.dev/rendered"], d.Spec.Template.Annotations = "0123456789", map[string]string{"sandbar.dev/ports": d.Annotations["sandbar.dev/ports"]}
	d.Spec.Template.Spec.Containers[0].Image = proxyImageOfTests
	return d
}

// servedBudget is its PodDisruptionBudget.
func servedBudget(t *testing.T) *policyv1.PodDisruptionBudget {
	t.Helper()
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "sandbar-proxy-backend", Labels: intercept.Labels("backend")},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: intercept.Selector("backend")},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

func created(resource schema.GroupVersionResource, object runtime.Object, name string) change {
	return change{operation: admission.Create, resource: resource, namespace: "prod", name: name, after: object}
}

// What the controllers write, with and without what an API server fills in, is let through.
func TestAdmissionLetsThroughWhatTheControllersWrite(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	files, err := filepath.Glob("../pkg/intercept/testdata/render/*.golden.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("there are %d goldens: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for part := range strings.SplitSeq(string(text), "---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(part), &object.Object); err != nil {
				t.Fatal(err)
			}
			resource := services
			switch spec, _ := object.Object["spec"].(map[string]any); {
			case spec["template"] != nil:
				resource = deployments
			case spec["minAvailable"] != nil:
				resource = budgets
			}
			seen[resource.Resource] = true
			w := created(resource, object, object.GetName())
			a.wants(t, "", w)
			w.operation, w.before = admission.Update, object
			a.wants(t, "", w)
			w.operation, w.after = admission.Delete, nil
			a.wants(t, "", w)
		}
		if len(seen) != 3 {
			t.Errorf("%s has %v", file, slices.Collect(maps.Keys(seen)))
		}
	}
	d := servedDeployment(t)
	a.wants(t, "", created(deployments, d, d.Name))
	a.wants(t, "", created(deployments, proxyDeployment(t), "sandbar-proxy-web"))
	a.wants(t, "", created(budgets, servedBudget(t), d.Name))
	long := strings.Repeat("x", 60)
	named := edited(servedBudget(t), func(b *policyv1.PodDisruptionBudget) {
		b.Name, b.Labels, b.Spec.Selector.MatchLabels = intercept.ProxyName(long), intercept.Labels(long), intercept.Selector(long)
	})
	a.wants(t, "", created(budgets, named, named.Name))
	if a := admissionOf(t, ""); a.refusal(created(deployments, d, d.Name)) == "" {
		t.Error("without an image of the operator's any is let through")
	}
}

type attack struct {
	change func(d *appsv1.Deployment, pod *corev1.PodSpec, c *corev1.Container)
	says   string
}

const (
	saysName, saysLabels, saysTwo   = "of their proxies only", "give their proxies three labels", "two proxies"
	saysTemplate, saysPod, saysNode = "labels of their Deployment", "any other field", "by the scheduler of the cluster"
	saysUser, saysImage, saysArgs   = "as the user and group 65532", "make proxies only", "arguments of its own Service"
	saysPorts, saysProbes           = "33 ports of TCP", "to the port sandbar-admin of the pod itself"
	saysResources, saysPrivileges   = "cpu 50m to 1", "no capabilities"
)

func objectAttacks() map[string]attack {
	type (
		dep = appsv1.Deployment
		pod = corev1.PodSpec
		con = corev1.Container
	)
	return map[string]attack{
		"another name":              {func(d *dep, _ *pod, _ *con) { d.Name = "web" }, saysName},
		"the name of another one":   {func(d *dep, _ *pod, _ *con) { d.Name = "sandbar-proxy-api" }, saysName},
		"without its labels":        {func(d *dep, _ *pod, _ *con) { d.Labels = nil }, saysName},
		"another label of its own":  {func(d *dep, _ *pod, _ *con) { d.Labels["app.kubernetes.io/name"] = "x" }, saysLabels},
		"one more label of its own": {func(d *dep, _ *pod, _ *con) { d.Labels["a"] = "b" }, saysLabels},
		"an annotation of its own":  {func(d *dep, _ *pod, _ *con) { d.Annotations["keel.sh/policy"] = "all" }, saysLabels},
		"an annotation with words":  {func(d *dep, _ *pod, _ *con) { d.Annotations["sandbar.dev/rendered"] = "thief" }, saysLabels},
		"an owner":                  {func(d *dep, _ *pod, _ *con) { d.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, saysLabels},
		"a finalizer":               {func(d *dep, _ *pod, _ *con) { d.Finalizers = []string{"a/b"} }, saysLabels},
		"many":                      {func(d *dep, _ *pod, _ *con) { d.Spec.Replicas = new(int32(1000)) }, saysTwo},
		"none":                      {func(d *dep, _ *pod, _ *con) { d.Spec.Replicas = new(int32(0)) }, saysTwo},
		"other pods":                {func(d *dep, _ *pod, _ *con) { d.Spec.Selector.MatchLabels["app"] = "x" }, saysTwo},
		"pods by an expression": {func(d *dep, _ *pod, _ *con) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}
		}, saysTwo},
		"many while replaced": {func(d *dep, _ *pod, _ *con) {
			d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("10000%"))
		}, saysTwo},
		"none while replaced":        {func(d *dep, _ *pod, _ *con) { d.Spec.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2)) }, saysTwo},
		"all replaced at once":       {func(d *dep, _ *pod, _ *con) { d.Spec.Strategy = appsv1.DeploymentStrategy{Type: "Recreate"} }, saysTwo},
		"paused":                     {func(d *dep, _ *pod, _ *con) { d.Spec.Paused = true }, saysTwo},
		"never available":            {func(d *dep, _ *pod, _ *con) { d.Spec.MinReadySeconds = 1 << 30 }, saysTwo},
		"much history":               {func(d *dep, _ *pod, _ *con) { d.Spec.RevisionHistoryLimit = new(int32(1000)) }, saysTwo},
		"never given up":             {func(d *dep, _ *pod, _ *con) { d.Spec.ProgressDeadlineSeconds = new(int32(1 << 30)) }, saysTwo},
		"the labels of a database":   {func(d *dep, _ *pod, _ *con) { d.Spec.Template.Labels["app"] = "db" }, saysTemplate},
		"the name of another app":    {func(d *dep, _ *pod, _ *con) { d.Spec.Template.Labels["app.kubernetes.io/name"] = "payments" }, saysTemplate},
		"managed by another":         {func(d *dep, _ *pod, _ *con) { d.Spec.Template.Labels["app.kubernetes.io/managed-by"] = "Helm" }, saysTemplate},
		"in front of another":        {func(d *dep, _ *pod, _ *con) { d.Spec.Template.Labels[intercept.LabelService] = "api" }, saysTemplate},
		"an annotation of pods":      {func(d *dep, _ *pod, _ *con) { d.Spec.Template.Annotations["sidecar.istio.io/inject"] = "true" }, saysTemplate},
		"words in ours":              {func(d *dep, _ *pod, _ *con) { d.Spec.Template.Annotations["sandbar.dev/ports"] = "{}" }, saysTemplate},
		"pods that never go":         {func(d *dep, _ *pod, _ *con) { d.Spec.Template.Finalizers = []string{"a/b"} }, saysTemplate},
		"pods of another owner":      {func(d *dep, _ *pod, _ *con) { d.Spec.Template.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, saysTemplate},
		"another identity":           {func(_ *dep, p *pod, _ *con) { p.ServiceAccountName = "default" }, saysPod},
		"another identity as before": {func(_ *dep, p *pod, _ *con) { p.DeprecatedServiceAccount = "default" }, saysPod},
		"variables of Services":      {func(_ *dep, p *pod, _ *con) { p.EnableServiceLinks = nil }, saysPod},
		"an endless end":             {func(_ *dep, p *pod, _ *con) { p.TerminationGracePeriodSeconds = new(int64(1 << 30)) }, saysPod},
		"a deadline":                 {func(_ *dep, p *pod, _ *con) { p.ActiveDeadlineSeconds = new(int64(1)) }, saysPod},
		"another scheduler":          {func(_ *dep, p *pod, _ *con) { p.SchedulerName = "thief" }, saysNode},
		"other nodes":                {func(_ *dep, p *pod, _ *con) { p.NodeSelector["kubernetes.io/hostname"] = "control-plane" }, saysNode},
		"any node":                   {func(_ *dep, p *pod, _ *con) { p.NodeSelector = nil }, saysNode},
		"beside a database":          {func(_ *dep, p *pod, _ *con) { p.Affinity.PodAffinity = &corev1.PodAffinity{} }, saysNode},
		"by the node":                {func(_ *dep, p *pod, _ *con) { p.Affinity.NodeAffinity = &corev1.NodeAffinity{} }, saysNode},
		"apart from others": {func(_ *dep, p *pod, _ *con) {
			p.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{{TopologyKey: "a"}}
		}, saysNode},
		"together": {func(_ *dep, p *pod, _ *con) { p.Affinity = nil }, saysNode},
	}
}

func podAttacks() map[string]attack {
	type (
		dep = appsv1.Deployment
		pod = corev1.PodSpec
		con = corev1.Container
	)
	return map[string]attack{
		"a volume":               {func(_ *dep, p *pod, _ *con) { p.Volumes = []corev1.Volume{{Name: "a"}} }, saysPod},
		"a container before":     {func(_ *dep, p *pod, _ *con) { p.InitContainers = p.Containers }, saysPod},
		"a container for a time": {func(_ *dep, p *pod, _ *con) { p.EphemeralContainers = []corev1.EphemeralContainer{{}} }, saysPod},
		"the node's network":     {func(_ *dep, p *pod, _ *con) { p.HostNetwork = true }, saysPod},
		"the node's processes":   {func(_ *dep, p *pod, _ *con) { p.HostPID = true }, saysPod},
		"the node's memory":      {func(_ *dep, p *pod, _ *con) { p.HostIPC = true }, saysPod},
		"the node's users":       {func(_ *dep, p *pod, _ *con) { p.HostUsers = new(true) }, saysPod},
		"processes of all":       {func(_ *dep, p *pod, _ *con) { p.ShareProcessNamespace = new(true) }, saysPod},
		"names of hosts": {func(_ *dep, p *pod, _ *con) {
			p.HostAliases = []corev1.HostAlias{{IP: "8.8.8.8", Hostnames: []string{"backend-sandbar-baseline.prod.svc"}}}
		}, saysPod},
		"other names of hosts":  {func(_ *dep, p *pod, _ *con) { p.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"8.8.8.8"}} }, saysPod},
		"no DNS of the cluster": {func(_ *dep, p *pod, _ *con) { p.DNSPolicy = corev1.DNSNone }, saysPod},
		"the node's DNS":        {func(_ *dep, p *pod, _ *con) { p.DNSPolicy = corev1.DNSDefault }, saysPod},
		"a name of its own":     {func(_ *dep, p *pod, _ *con) { p.Hostname, p.Subdomain = "db-0", "db" }, saysPod},
		"one node":              {func(_ *dep, p *pod, _ *con) { p.NodeName = "control-plane" }, saysPod},
		"a priority":            {func(_ *dep, p *pod, _ *con) { p.PriorityClassName = "system-node-critical" }, saysPod},
		"a number of priority":  {func(_ *dep, p *pod, _ *con) { p.Priority = new(int32(1 << 30)) }, saysPod},
		"a toleration":          {func(_ *dep, p *pod, _ *con) { p.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }, saysPod},
		"a class of runtimes":   {func(_ *dep, p *pod, _ *con) { p.RuntimeClassName = new("thief") }, saysPod},
		"claims of devices":     {func(_ *dep, p *pod, _ *con) { p.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, saysPod},
		"a spread":              {func(_ *dep, p *pod, _ *con) { p.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}} }, saysPod},
		"Secrets of images":     {func(_ *dep, p *pod, _ *con) { p.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}} }, saysPod},
		"gates":                 {func(_ *dep, p *pod, _ *con) { p.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}} }, saysPod},
		"gates of readiness":    {func(_ *dep, p *pod, _ *con) { p.ReadinessGates = []corev1.PodReadinessGate{{}} }, saysPod},
		"another overhead": {func(_ *dep, p *pod, _ *con) {
			p.Overhead = corev1.ResourceList{}
			p.Overhead["cpu"] = p.Containers[0].Resources.Limits["cpu"]
		}, saysPod},
		"root, perhaps":     {func(_ *dep, p *pod, _ *con) { p.SecurityContext.RunAsNonRoot = nil }, saysUser},
		"root":              {func(_ *dep, p *pod, _ *con) { p.SecurityContext.RunAsUser = new(int64(0)) }, saysUser},
		"the group of root": {func(_ *dep, p *pod, _ *con) { p.SecurityContext.RunAsGroup = new(int64(0)) }, saysUser},
		"more groups":       {func(_ *dep, p *pod, _ *con) { p.SecurityContext.SupplementalGroups = []int64{0} }, saysUser},
		"any system call":   {func(_ *dep, p *pod, _ *con) { p.SecurityContext.SeccompProfile.Type = "Unconfined" }, saysUser},
		"a sysctl for no port": {func(_ *dep, p *pod, _ *con) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
		}, saysUser},
		"another sysctl": {func(_ *dep, p *pod, _ *con) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "0"}}
		}, saysUser},
		"a port without a sysctl": {func(_ *dep, _ *pod, c *con) { c.Ports[1].ContainerPort = 80 }, saysUser},
	}
}

func containerAttacks() map[string]attack {
	type (
		dep = appsv1.Deployment
		pod = corev1.PodSpec
		con = corev1.Container
	)
	arg := func(i int, text string) attack {
		return attack{func(_ *dep, _ *pod, c *con) { c.Args[i] = text }, saysArgs}
	}
	more := func(args ...string) attack {
		return attack{func(_ *dep, _ *pod, c *con) { c.Args = append(c.Args, args...) }, saysArgs}
	}
	return map[string]attack{
		"another image":         {func(_ *dep, _ *pod, c *con) { c.Image = "thief" }, saysImage},
		"another container":     {func(_ *dep, p *pod, _ *con) { p.Containers = append(p.Containers, p.Containers[0]) }, saysImage},
		"no container":          {func(_ *dep, p *pod, _ *con) { p.Containers = nil }, saysImage},
		"another name of it":    {func(_ *dep, _ *pod, c *con) { c.Name = "istio-proxy" }, saysImage},
		"a command":             {func(_ *dep, _ *pod, c *con) { c.Command = []string{"sh"} }, saysImage},
		"a variable":            {func(_ *dep, _ *pod, c *con) { c.Env = []corev1.EnvVar{{Name: "GODEBUG"}} }, saysImage},
		"variables of a Secret": {func(_ *dep, _ *pod, c *con) { c.EnvFrom = []corev1.EnvFromSource{{}} }, saysImage},
		"a mount":               {func(_ *dep, _ *pod, c *con) { c.VolumeMounts = []corev1.VolumeMount{{Name: "a"}} }, saysImage},
		"a device":              {func(_ *dep, _ *pod, c *con) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "a"}} }, saysImage},
		"a hook":                {func(_ *dep, _ *pod, c *con) { c.Lifecycle = &corev1.Lifecycle{} }, saysImage},
		"another directory":     {func(_ *dep, _ *pod, c *con) { c.WorkingDir = "/proc" }, saysImage},
		"a terminal":            {func(_ *dep, _ *pod, c *con) { c.TTY = true }, saysImage},
		"an input":              {func(_ *dep, _ *pod, c *con) { c.Stdin = true }, saysImage},
		"a third probe":         {func(_ *dep, _ *pod, c *con) { c.StartupProbe = c.LivenessProbe }, saysImage},
		"never pulled":          {func(_ *dep, _ *pod, c *con) { c.ImagePullPolicy = corev1.PullNever }, saysImage},
		"a message from a file": {func(_ *dep, _ *pod, c *con) {
			c.TerminationMessagePath = "/var/run/secrets/kubernetes.io/serviceaccount/token"
		}, saysImage},
		"a message from the log": {func(_ *dep, _ *pod, c *con) {
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}, saysImage},
		"another Service":           arg(1, "api"),
		"another namespace":         arg(3, "default"),
		"the admin port elsewhere":  arg(5, "8.8.8.8:15080"),
		"no drain":                  arg(7, "1ns"),
		"each request in a log":     more("--access-log"),
		"one connection":            more("--max-connections", "1"),
		"another Service, too":      more("--service", "api"),
		"another API server":        more("--kubeconfig", "/x"),
		"without arguments":         {func(_ *dep, _ *pod, c *con) { c.Args = nil }, saysArgs},
		"a port of the node":        {func(_ *dep, _ *pod, c *con) { c.Ports[0].HostPort = 80 }, saysPorts},
		"an address of the node":    {func(_ *dep, _ *pod, c *con) { c.Ports[1].HostIP = "0.0.0.0" }, saysPorts},
		"a port of UDP":             {func(_ *dep, _ *pod, c *con) { c.Ports[1].Protocol = corev1.ProtocolUDP }, saysPorts},
		"many ports":                {func(_ *dep, _ *pod, c *con) { c.Ports = append(c.Ports, slices.Repeat(c.Ports[1:], 32)...) }, saysPorts},
		"the admin port as another": {func(_ *dep, _ *pod, c *con) { c.Ports[0].Name = "http" }, saysPorts},
		"the admin port low":        {func(_ *dep, _ *pod, c *con) { c.Ports[0].ContainerPort, c.Args[5] = 8080, ":8080" }, saysPorts},
		"no ports":                  {func(_ *dep, _ *pod, c *con) { c.Ports, c.Args[5] = nil, ":0" }, saysPorts},
		"a probe of another host":   {func(_ *dep, _ *pod, c *con) { c.ReadinessProbe.HTTPGet.Host = "169.254.169.254" }, saysProbes},
		"a probe of another path":   {func(_ *dep, _ *pod, c *con) { c.ReadinessProbe.HTTPGet.Path = "/healthz" }, saysProbes},
		"a probe of another port":   {func(_ *dep, _ *pod, c *con) { c.LivenessProbe.HTTPGet.Port = intstr.FromInt32(10250) }, saysProbes},
		"a probe by TLS":            {func(_ *dep, _ *pod, c *con) { c.LivenessProbe.HTTPGet.Scheme = corev1.URISchemeHTTPS }, saysProbes},
		"a probe with a header":     {func(_ *dep, _ *pod, c *con) { c.LivenessProbe.HTTPGet.HTTPHeaders = []corev1.HTTPHeader{{Name: "a"}} }, saysProbes},
		"a probe that runs": {func(_ *dep, _ *pod, c *con) {
			c.LivenessProbe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh"}}}
		}, saysProbes},
		"a probe that connects":     {func(_ *dep, _ *pod, c *con) { c.ReadinessProbe.TCPSocket = &corev1.TCPSocketAction{Host: "8.8.8.8"} }, saysProbes},
		"a probe of gRPC":           {func(_ *dep, _ *pod, c *con) { c.ReadinessProbe.GRPC = &corev1.GRPCAction{Port: 1} }, saysProbes},
		"a probe that kills":        {func(_ *dep, _ *pod, c *con) { c.LivenessProbe.TerminationGracePeriodSeconds = new(int64(1)) }, saysProbes},
		"ready too late":            {func(_ *dep, _ *pod, c *con) { c.ReadinessProbe.InitialDelaySeconds = 3600 }, saysProbes},
		"ready for ever":            {func(_ *dep, _ *pod, c *con) { c.ReadinessProbe.FailureThreshold = 1 << 30 }, saysProbes},
		"killed at once":            {func(_ *dep, _ *pod, c *con) { c.LivenessProbe.FailureThreshold = 1 }, saysProbes},
		"without a probe":           {func(_ *dep, _ *pod, c *con) { c.ReadinessProbe = nil }, saysProbes},
		"all memory":                {func(_ *dep, _ *pod, c *con) { c.Resources.Limits = nil }, saysResources},
		"much of the quota":         {func(_ *dep, _ *pod, c *con) { c.Resources.Requests = c.Resources.Limits }, saysResources},
		"devices":                   {func(_ *dep, _ *pod, c *con) { c.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}} }, saysResources},
		"another policy of resizes": {func(_ *dep, _ *pod, c *con) { c.ResizePolicy = []corev1.ContainerResizePolicy{{}} }, saysImage},
		"privileges":                {func(_ *dep, _ *pod, c *con) { c.SecurityContext.Privileged = new(true) }, saysPrivileges},
		"more privileges later":     {func(_ *dep, _ *pod, c *con) { c.SecurityContext.AllowPrivilegeEscalation = nil }, saysPrivileges},
		"a capability":              {func(_ *dep, _ *pod, c *con) { c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_RAW"} }, saysPrivileges},
		"usual capabilities":        {func(_ *dep, _ *pod, c *con) { c.SecurityContext.Capabilities = nil }, saysPrivileges},
		"files that it writes":      {func(_ *dep, _ *pod, c *con) { c.SecurityContext.ReadOnlyRootFilesystem = nil }, saysPrivileges},
		"root in the container":     {func(_ *dep, _ *pod, c *con) { c.SecurityContext.RunAsUser = new(int64(0)) }, saysPrivileges},
		"not only others than root": {func(_ *dep, _ *pod, c *con) { c.SecurityContext.RunAsNonRoot = new(false) }, saysPrivileges},
		"any system call in it": {func(_ *dep, _ *pod, c *con) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: "Unconfined"}
		}, saysPrivileges},
		"all of /proc": {func(_ *dep, _ *pod, c *con) { c.SecurityContext.ProcMount = new(corev1.UnmaskedProcMount) }, saysPrivileges},
	}
}

// Each attack is one field away from what the controllers write.
func TestAdmissionLeavesTheProxiesTheirOwnPodsAlone(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	for _, attacks := range []map[string]attack{objectAttacks(), podAttacks(), containerAttacks()} {
		for name, by := range attacks {
			t.Run(name, func(t *testing.T) {
				d := servedDeployment(t)
				by.change(d, &d.Spec.Template.Spec, &d.Spec.Template.Spec.Containers[0])
				a.wants(t, by.says, created(deployments, d, d.Name))
				w := created(deployments, d, d.Name)
				w.operation, w.before = admission.Update, servedDeployment(t)
				if a.refusal(w) == "" {
					t.Error("an update is let through")
				}
			})
		}
	}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"}}
	a.wants(t, saysName, change{operation: admission.Delete, resource: deployments, namespace: "prod", name: "web", before: web})
	d := servedDeployment(t)
	a.wants(t, "do not write this kind", change{operation: admission.Update, resource: deployments, subresource: "scale", namespace: "prod", name: d.Name, before: d, after: d})
}

func TestAdmissionLeavesABudgetAsItIsRendered(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	const says = "keeps one of the proxies"
	for name, c := range map[string]struct {
		change func(b *policyv1.PodDisruptionBudget)
		says   string
	}{
		"no pod may go":         {func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("100%")) }, says},
		"the pods of a node":    {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }, says},
		"those of a database":   {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = map[string]string{"app": "db"} }, says},
		"those of another one":  {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = intercept.Selector("api") }, says},
		"pods that never start": {func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = nil }, says},
		"no more than none": {func(b *policyv1.PodDisruptionBudget) {
			b.Spec.MinAvailable, b.Spec.MaxUnavailable = nil, new(intstr.FromInt32(0))
		}, says},
		"an annotation": {func(b *policyv1.PodDisruptionBudget) {
			b.Annotations = map[string]string{"sandbar.dev/ports": "0123456789"}
		}, saysLabels},
		"another name": {func(b *policyv1.PodDisruptionBudget) { b.Name = "sandbar-proxy-api" }, saysName},
	} {
		t.Run(name, func(t *testing.T) {
			b := edited(servedBudget(t), c.change)
			a.wants(t, c.says, created(budgets, b, b.Name))
		})
	}
}

// fieldsThatAreFree are what a thief may choose: names of ports that the Service's pods may have, and what of metadata the API server
// writes itself. An image that is on the node already, or is pulled, is the operator's.
var fieldsThatAreFree = regexp.MustCompile(`^/metadata/(namespace|creationTimestamp|later)$|^/(apiVersion|kind|status|later)(/|$)` +
	`|^/spec/template/spec/containers/0/ports/[1-9]\d*(/(name|containerPort))?$` +
	`|^(/spec/template)?/metadata/creationTimestamp$`)

// fieldsThatTheAPIServerFillsIn are never absent when admission is asked, or, as annotations with hashes, harm nobody by it.
var fieldsThatTheAPIServerFillsIn = regexp.MustCompile(`/(progressDeadlineSeconds|revisionHistoryLimit|dnsPolicy|restartPolicy|schedulerName|serviceAccount` +
	`|imagePullPolicy|terminationMessage(Path|Policy)|scheme|protocol|annotations|sandbar.dev.(ports|rendered))$`)

// TestAdmissionComparesEveryField changes each field of what the controllers write, takes it away, and adds one to each object in it: one
// that is let through has to be among those above.
func TestAdmissionComparesEveryField(t *testing.T) {
	a := admissionOf(t, proxyImageOfTests)
	for resource, object := range map[schema.GroupVersionResource]runtime.Object{deployments: servedDeployment(t), budgets: servedBudget(t)} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		each := func(path, what string) {
			n++
			next := &unstructured.Unstructured{Object: fields}
			isFree := fieldsThatAreFree.MatchString(path) || what == "without" && fieldsThatTheAPIServerFillsIn.MatchString(path)
			said := a.refusal(created(resource, next, next.GetName()))
			if said == "" && !isFree {
				t.Errorf("%s %s %s is let through", resource.Resource, what, path)
			}
			if strings.Contains(said, "no such overload") || strings.Contains(said, "cost") {
				t.Errorf("%s %s %s: %s", resource.Resource, what, path, said)
			}
		}
		everyField(fields, "", each)
		if n < 20 {
			t.Errorf("%s has %d fields", resource.Resource, n)
		}
		a.wants(t, "", created(resource, &unstructured.Unstructured{Object: fields}, fields["metadata"].(map[string]any)["name"].(string)))
	}
}

// everyField changes one field at a time, calls each, and changes it back.
func everyField(in any, path string, each func(path, what string)) {
	switch of := in.(type) {
	case map[string]any:
		of["later"] = "x"
		each(path+"/later", "with")
		delete(of, "later")
		for _, key := range slices.Sorted(maps.Keys(of)) {
			was, at := of[key], path+"/"+strings.ReplaceAll(key, "/", ".")
			delete(of, key)
			each(at, "without")
			if of[key] = was; isLeaf(was) {
				of[key] = otherThan(was)
				each(at, "with another")
				of[key] = was
				continue
			}
			everyField(was, at, each)
		}
	case []any:
		for i, was := range of {
			at := fmt.Sprintf("%s/%d", path, i)
			if isLeaf(was) {
				of[i] = otherThan(was)
				each(at, "with another")
				of[i] = was
				continue
			}
			everyField(was, at, each)
		}
	}
}

func isLeaf(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func otherThan(value any) any {
	switch value := value.(type) {
	case string:
		return value + "x"
	case int64:
		return value + 1
	case bool:
		return !value
	}
	return "x"
}
