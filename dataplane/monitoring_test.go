// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
)

const monitoring = "../install/monitoring"

// foreignMetrics are those of libraries and of the controllers that the dashboard and the rules
// read, with their labels.
var foreignMetrics = map[string][]string{
	"controller_runtime_reconcile_errors_total":    {"controller"},
	"controller_runtime_reconcile_time_seconds":    {"controller"},
	"controller_runtime_reconcile_total":           {"controller", "result"},
	"sandbar_canary_age_seconds":                   {},
	"sandbar_canary_composing":                     {},
	"sandbar_routes":                               {"reason"},
	"sandbar_route_events_total":                   {"outcome"},
	"sandbar_dev_sessions":                         {"phase"},
	"sandbar_dev_session_events_total":             {"outcome"},
	"sandbar_claim_keys_total":                     {"result"},
	"sandbar_clock_ahead_seconds":                  {"of"},
	"sandbar_control_keys":                         {},
	"sandbar_control_token_writes_total":           {"result"},
	"sandbar_control_tokens":                       {"key"},
	"sandbar_credential_expires_timestamp_seconds": {"credential"},
	"sandbar_dns_reachable":                        {},
	"sandbar_endpoint_retries_total":               {"template"},
	"sandbar_heartbeat_age_seconds":                {},
	"sandbar_instance_limit_refusals_total":        {"reason"},
	"sandbar_instance_lost_total":                  {"reason"},
	"sandbar_resizes_total":                        {"outcome"},
	"sandbar_network_policy_checks_total":          {"reason"},
	"sandbar_network_policy_enforced":              {},
	"sandbar_rollout_instances":                    {"template", "state"},
	"sandbar_rollout_paused":                       {"template", "cause"},
	"sandbar_sweep_rounds_total":                   {"result"},
	"sandbar_sweep_unknown_placements":             {"template"},
	"sandbar_unused_held":                          {"change", "cause"},
	"workqueue_depth":                              {"name", "controller", "priority"},
}

var (
	described   = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	metricInUse = regexp.MustCompile(`\b((?:sandbar|go|process|controller_runtime|workqueue)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher     = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!=|!~|=)\s*"([^"]*)"`)
	grouping    = regexp.MustCompile(`\bby \(([^)]*)\)`)
	increased   = regexp.MustCompile(`increase\((\w+)\{(\w+)=~?"([^"]*)"\}`)
	causes      = regexp.MustCompile(`(?m)^\s*Cause[A-Z]\w*\s*= "([a-z_]+)"`)
)

// metricsOf lists what a server can serve, whether or not it has happened, with the labels.
func metricsOf(registry *prometheus.Registry) map[string][]string {
	all := maps.Clone(foreignMetrics)
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	for d := range descriptions {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			all[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return all
}

// checkExpression reports what an expression names that is not there.
func checkExpression(t *testing.T, expression string, metrics map[string][]string, reasons []string) {
	t.Helper()
	used := metricInUse.FindAllStringSubmatch(expression, -1)
	if len(used) == 0 {
		t.Errorf("%s reads no metric", expression)
	}
	labels := []string{"le", "instance"} // a histogram's and Prometheus's own
	for _, use := range used {
		name := use[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if _, ok := metrics[name]; !ok {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		own, ok := metrics[name]
		if !ok {
			t.Errorf("%s: there is no metric %s", expression, use[1])
			continue
		}
		labels = append(labels, own...)
		for _, m := range matcher.FindAllStringSubmatch(use[2], -1) {
			if m[1] != "instance" && !slices.Contains(own, m[1]) {
				t.Errorf("%s: %s has no label %s", expression, name, m[1])
			}
			if m[1] != "reason" || strings.HasPrefix(m[2], "$") {
				continue
			}
			for reason := range strings.SplitSeq(m[2], "|") {
				if !slices.Contains(reasons, reason) {
					t.Errorf("%s: nothing has the reason %s", expression, reason)
				}
			}
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(labels, label) {
				t.Errorf("%s: none of its metrics has a label %s", expression, label)
			}
		}
	}
}

// metricInTable is a metric that docs/limits.md names, with its labels.
var metricInTable = regexp.MustCompile("`(sandbar_[a-z_]+[a-z]|[a-z_]+_total)((?:\\{[a-z]+=\"\\w+\"\\})?)`")

// A dashboard that reads a metric under an old name shows an empty panel, and an alert never
// rings; both look as if all were well.
func TestTheDashboardAndTheAlertsReadWhatThereIs(t *testing.T) {
	w := newWorld(t, http.NotFoundHandler())
	metrics := metricsOf(w.server.metrics.Registry)
	source, err := os.ReadFile("refusal/causes.go")
	if err != nil {
		t.Fatal(err)
	}
	reasons := append([]string{upstream.ReasonConfigured, upstream.ReasonReachable, upstream.ReasonRefused, upstream.ReasonUnreachable}, record.DropReasons()...)
	reasons = append(reasons, "CheckFailed", "WorkspaceLimit", "PlacementsLimit", "PlacementLost", "ResourcesLost", "SnapshotsLost") // of the controllers (instance/outcome)
	for _, m := range causes.FindAllStringSubmatch(string(source), -1) {
		reasons = append(reasons, m[1])
	}

	t.Run("the dashboard", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				ID         int
				Title      string
				Type       string
				Datasource struct{ UID string }
				GridPos    struct{ X, Y, W, H int }
				Targets    []struct{ Expr string }
			}
			Templating struct{ List []struct{ Name, Type string } }
		}
		if err := json.Unmarshal(data, &dashboard); err != nil {
			t.Fatal(err)
		}
		ids := map[int]bool{}
		for _, p := range dashboard.Panels {
			if ids[p.ID] || p.ID == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("the panel %q has id %d and is at %v", p.Title, p.ID, p.GridPos)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
				t.Errorf("the panel %q asks nothing, or a data source that only one Grafana has", p.Title)
			}
			for _, target := range p.Targets {
				checkExpression(t, target.Expr, metrics, reasons)
			}
		}
		if len(ids) < 20 || len(dashboard.Templating.List) != 3 || dashboard.Templating.List[0].Type != "datasource" {
			t.Errorf("%d panels and the variables %v", len(ids), dashboard.Templating.List)
		}
	})
	t.Run("the alerts", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join(monitoring, "rules.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		docs, err := os.ReadFile("../docs/observability.md")
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Groups []struct {
				Name  string
				Rules []struct {
					Alert, Expr         string
					Labels, Annotations map[string]string
				}
			}
		}
		if err := yaml.UnmarshalStrict(data, &rules, yaml.DisallowUnknownFields); err != nil && !strings.Contains(err.Error(), `unknown field "for"`) {
			t.Fatal(err)
		}
		n := 0
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				n++
				checkExpression(t, r.Expr, metrics, reasons)
				if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" {
					t.Errorf("%s has the severity %q and the summary %q", r.Alert, r.Labels["severity"], r.Annotations["summary"])
				}
				if !strings.Contains(string(docs), "`"+r.Alert+"`") {
					t.Errorf("docs/observability.md does not say what to do about %s", r.Alert)
				}
			}
		}
		if n < 10 {
			t.Errorf("%d rules", n)
		}
	})
	t.Run("the table of limits", func(t *testing.T) {
		data, err := os.ReadFile("../docs/limits.md")
		if err != nil {
			t.Fatal(err)
		}
		named := metricInTable.FindAllStringSubmatch(string(data), -1)
		for _, m := range named {
			name := m[1]
			if !strings.HasPrefix(name, "sandbar_") { // as the document says at its beginning
				name = "sandbar_dataplane_" + name
			}
			checkExpression(t, name+m[2], metrics, reasons)
		}
		if len(named) < 30 {
			t.Errorf("%d metrics are named", len(named))
		}
	})
	t.Run("what an alert reads of a few events is there before the first", func(t *testing.T) {
		data, err := os.ReadFile(filepath.Join(monitoring, "rules.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		w.do("POST", demo+"sync", adminToken, nil) // its verb has a series from then on
		text, n := w.scrape(), 0
		for _, use := range increased.FindAllStringSubmatch(string(data), -1) {
			if _, foreign := foreignMetrics[use[1]]; foreign { // the controllers' own test reads it
				n++
				continue
			}
			for value := range strings.SplitSeq(use[3], "|") {
				n++
				if !regexp.MustCompile(`(?m)^` + use[1] + `\{[^}]*` + use[2] + `="` + value + `"`).MatchString(text) {
					t.Errorf("%s{%s=%q} appears with its first increment, of which increase() sees nothing", use[1], use[2], value)
				}
			}
		}
		if want := strings.Count(string(data), "increase("); n < want {
			t.Errorf("%d series are read, by %d increases", n, want)
		}
	})
	t.Run("the metrics are all documented", func(t *testing.T) {
		docs, err := os.ReadFile("../docs/observability.md")
		if err != nil {
			t.Fatal(err)
		}
		for name := range metrics {
			if strings.HasPrefix(name, "sandbar_") && !strings.Contains(string(docs), "`"+strings.TrimPrefix(name, "sandbar_dataplane_")+"`") {
				t.Errorf("docs/observability.md does not have %s", name)
			}
		}
	})
	t.Run("the reasons are all documented", func(t *testing.T) {
		docs, err := os.ReadFile("../docs/observability.md")
		if err != nil {
			t.Fatal(err)
		}
		documented := regexp.MustCompile(`[a-z_]+`).FindAllString(string(docs), -1)
		for _, m := range causes.FindAllStringSubmatch(string(source), -1) {
			if !slices.Contains(documented, m[1]) {
				t.Errorf("docs/observability.md does not explain %s", m[1])
			}
		}
	})
	t.Run("Prometheus takes the rules", func(t *testing.T) {
		promtool, err := exec.LookPath("promtool")
		if err != nil {
			t.Skip("promtool is not installed; Debian has it in the package prometheus")
		}
		for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules.test.yaml"}} {
			cmd := exec.Command(promtool, args...)
			cmd.Dir = monitoring
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
}

func TestTheCheckOfExpressionsFindsWhatIsWrong(t *testing.T) {
	metrics := map[string][]string{"sandbar_dataplane_a_total": {"reason"}}
	for _, expression := range []string{
		`rate(sandbar_dataplane_b_total[5m])`, `sandbar_dataplane_a_total{verb="x"}`, `sum by (verb) (sandbar_dataplane_a_total)`,
		`sandbar_dataplane_a_total{reason=~"known|unknown"}`, `up == 0`,
	} {
		inner := &testing.T{}
		checkExpression(inner, expression, metrics, []string{"known"})
		if !inner.Failed() {
			t.Errorf("nothing is found wrong with %s", expression)
		}
	}
	checkExpression(t, `sum by (reason) (rate(sandbar_dataplane_a_total{reason="known",instance=~"$instance"}[5m]))`, metrics, []string{"known"})
}
