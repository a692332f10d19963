// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/kcp"
	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// report is the answer of status, as -o json prints it.
type report struct {
	Name        string            `json:"name"`
	Runtime     state.Runtime     `json:"runtime"`
	State       string            `json:"state"`
	Healthy     bool              `json:"healthy"`
	KCP         string            `json:"kcp"`
	RuntimeAPI  string            `json:"runtimeAPI,omitempty"`
	Network     map[string]string `json:"network,omitempty"`
	Kubeconfigs map[string]string `json:"kubeconfigs"`
	Bin         string            `json:"bin"`
	Logs        string            `json:"logs"`
	Units       []unitReport      `json:"units"`
}

type unitReport struct {
	Name      string             `json:"name"`
	PID       int                `json:"pid"`
	Processes []unit.HostProcess `json:"processes"`
}

var errUnhealthy = errors.New("something does not run")

func status(_ context.Context, s *setup, _ []string) error {
	r, err := s.report()
	if errors.Is(err, fs.ErrNotExist) {
		return s.notUp()
	}
	if err != nil {
		return err
	}
	if s.output == "json" {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	} else {
		err = r.print(os.Stdout)
	}
	if err == nil && !r.Healthy {
		return errUnhealthy
	}
	return err
}

func (s *setup) report() (*report, error) {
	decided, err := s.dir.Load()
	if err != nil {
		return nil, err
	}
	r := &report{
		Name: s.name, Runtime: decided.Runtime, State: string(s.dir), Healthy: true,
		KCP:         fmt.Sprintf("https://127.0.0.1:%d", decided.KCPPort),
		Kubeconfigs: map[string]string{},
		Bin:         decided.Bin,
		Logs:        s.dir.Logs(),
	}
	names := []string{kcp.UnitName}
	switch decided.Runtime {
	case state.RuntimeNode:
		n := node.Node{Net: state.NetworkAt(decided.Index)}
		r.RuntimeAPI = n.Server()
		r.Network = map[string]string{
			"host": n.Net.Host.String(), "node": n.Net.Node.String(), "link": n.Net.HostLink,
			"pods": n.Net.Pods.String(), "services": n.Net.Services.String(), "dns": n.Net.DNS.String(),
		}
		names = append(names, node.UnitName)
	case state.RuntimeKind:
		names = append(names, kroUnit)
	case state.RuntimeExternal:
	}
	// And what others have recorded with the stack, as the provider is.
	recorded, err := unit.Recorded(s.dir.Units())
	if err != nil {
		return nil, err
	}
	for _, name := range recorded {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	files, err := filepath.Glob(s.dir.Kubeconfig("*"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		r.Kubeconfigs[strings.TrimSuffix(filepath.Base(f), ".kubeconfig")] = f
	}
	for _, name := range names {
		if err := r.addUnit(s.dir, name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *report) addUnit(dir state.Dir, name string) error {
	u := unitReport{Name: name}
	defer func() { r.Units = append(r.Units, u) }()
	running, err := unit.Find(dir.Units(), name)
	if err != nil {
		return err
	}
	if running == nil {
		r.Healthy = false
		return nil
	}
	u.PID = running.PID
	processes, err := running.Processes()
	if err != nil {
		return err
	}
	for _, p := range processes {
		u.Processes = append(u.Processes, p)
		r.Healthy = r.Healthy && p.HostPID != 0
	}
	sort.Slice(u.Processes, func(i, j int) bool { return u.Processes[i].Name < u.Processes[j].Name })
	return nil
}

// print writes the report for people.
func (r *report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "stack\t%s\t(%s)\n", r.Name, r.State)
	fmt.Fprintf(w, "kcp\t%s\n", r.KCP)
	if r.RuntimeAPI != "" {
		fmt.Fprintf(w, "runtime\t%s\tpods %s, Services %s\n", r.RuntimeAPI, r.Network["pods"], r.Network["services"])
	}
	fmt.Fprintf(w, "logs\t%s\n\n", r.Logs)
	fmt.Fprintln(w, "PROCESS\tPID\tMEMORY\tSTARTS\tSINCE\tLAST EXIT")
	for _, u := range r.Units {
		if u.PID == 0 {
			fmt.Fprintf(w, "%s\tdown\t-\t-\t-\t\n", u.Name)
		}
		for _, p := range u.Processes {
			pid, since := strconv.Itoa(p.HostPID), time.Since(p.Started).Round(time.Second).String()
			if p.HostPID == 0 || p.Started.IsZero() {
				since = "-"
			}
			if p.HostPID == 0 {
				pid, since = "down", "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%d MiB\t%d\t%s\t%s\n", p.Name, pid, p.MemoryBytes>>20, p.Starts, since, p.LastExit)
		}
	}
	fmt.Fprintln(w)
	names := make([]string, 0, len(r.Kubeconfigs))
	for name := range r.Kubeconfigs {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "kubeconfig\t%s\t%s\n", name, r.Kubeconfigs[name])
	}
	return w.Flush()
}

// describe prints where things are.
func (s *setup) describe(w io.Writer) error {
	r, err := s.report()
	if err != nil {
		return err
	}
	return r.print(w)
}

// explainLines is how much of a log is printed when something fails.
const explainLines = 15

// explain prints the last lines of the logs of what does not run, or has been
// started more than once.
func (s *setup) explain() {
	r, err := s.report()
	if err != nil {
		return
	}
	for _, u := range r.Units {
		if u.PID == 0 {
			printTail(s.dir.Log(u.Name + "-init"))
		}
		for _, p := range u.Processes {
			if p.HostPID == 0 || p.Starts > 1 {
				fmt.Fprintf(os.Stderr, "\n%s: started %d times, last exit: %s\n", p.Name, p.Starts, p.LastExit)
				printTail(s.dir.Log(p.Name))
			}
		}
	}
	fmt.Fprintf(os.Stderr, "\nall logs: %s\n", r.Logs)
}

func printTail(path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	fmt.Fprintf(os.Stderr, "── %s\n%s\n", path, strings.Join(lines[max(0, len(lines)-explainLines):], "\n"))
}
