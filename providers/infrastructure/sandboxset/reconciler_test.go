// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// world is a workspace's sets and SandboxTemplates, and the members that there are.
type world struct {
	t         *testing.T
	removing  sync.Mutex
	sets      map[string]*sandbarv1alpha1.SandboxSet
	templates map[string]*sandbarv1alpha1.SandboxTemplate
	writes    int
	events    []string
	changed   []string // names that were told to be another's

	members   []members.Member
	made      int
	revisions int
	limitErr  error
	full      *outcome.FullError
	set       members.Set // as last configured
	tried     []string    // revisions whose pod was tried
	refuse    string      // why the runtime cluster refuses pods
	now       time.Time
	r         *reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: now, sets: map[string]*sandbarv1alpha1.SandboxSet{}, templates: map[string]*sandbarv1alpha1.SandboxTemplate{}}
	w.start()
	return w
}

// start is the start of a process.
func (w *world) start() {
	w.r = newReconciler(w, w, w, w)
	w.r.now = func() time.Time { return w.now }
	w.r.limits = func(context.Context) (int32, error) { return 100, w.limitErr }
}

func keyOf(name string) export.Key {
	return export.Key{Cluster: "c", NamespacedName: types.NamespacedName{Namespace: "n", Name: name}}
}

// add adds a set of a SandboxTemplate.
func (w *world) add(name, template string, replicas int32) *sandbarv1alpha1.SandboxSet {
	set := &sandbarv1alpha1.SandboxSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	set.Spec.Replicas = replicas
	if template == "" {
		set.Spec.Template = podSaying(name)
	} else {
		set.Spec.TemplateRef = &sandbarv1alpha1.SandboxSetTemplateRef{Name: template}
	}
	w.sets[name] = set
	return set
}

func (w *world) addTemplate(name, image string) {
	template := &sandbarv1alpha1.SandboxTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("template-" + name)}}
	template.Spec.Template = podSaying(image)
	w.templates[name] = template
}

func podSaying(image string) *sandbarv1alpha1.PodTemplate {
	return &sandbarv1alpha1.PodTemplate{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}}
}

// look looks at a set until it writes nothing more of it, a second apart.
func (w *world) look(name string) time.Duration {
	w.t.Helper()
	for range 5 {
		w.now = w.now.Add(statusEvery)
		before := w.writes + w.made
		result, err := w.r.Reconcile(w.t.Context(), keyOf(name))
		if err != nil {
			w.t.Fatal(err)
		}
		if w.writes+w.made == before {
			return result.RequeueAfter
		}
	}
	w.t.Fatal("it does not come to rest")
	return 0
}

func (w *world) condition(name, kind string) string {
	w.t.Helper()
	c := meta.FindStatusCondition(w.sets[name].Status.Conditions, kind)
	if c == nil {
		w.t.Fatalf("%s has no condition %s", name, kind)
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func (w *world) wantCondition(name, kind, begins string, words ...string) {
	w.t.Helper()
	got := w.condition(name, kind)
	if !strings.HasPrefix(got, begins) {
		w.t.Errorf("%s of %s is %q, want %s", kind, name, got, begins)
	}
	for _, word := range words {
		if !strings.Contains(got, word) {
			w.t.Errorf("%s of %s is %q, and lacks %q", kind, name, got, word)
		}
	}
}

func (w *world) Live(_ context.Context, key export.Key) (*unstructured.Unstructured, error) {
	set := w.sets[key.Name]
	if set == nil {
		return nil, apierrors.NewNotFound(Kind.GVR().GroupResource(), key.Name)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	return &unstructured.Unstructured{Object: fields}, err
}

// Patch is a merge patch, as kcp's.
func (w *world) Patch(_ context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	w.writes++
	if !slices.Equal(subresources, []string{"status"}) {
		w.t.Errorf("%v is written", subresources)
	}
	before, err := json.Marshal(w.sets[key.Name])
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, err
	}
	set := &sandbarv1alpha1.SandboxSet{}
	w.sets[key.Name] = set
	return nil, json.Unmarshal(after, set)
}

func (w *world) Record(_ context.Context, _ export.Key, event *corev1.Event) error {
	w.events = append(w.events, event.Type+" "+event.Reason+" "+event.InvolvedObject.Name+": "+event.Message)
	return nil
}

func (w *world) Own(_ context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	return w.templates[key.Name], nil
}

func (w *world) Changed(key export.Key) { w.changed = append(w.changed, key.Name) }

func (w *world) Configure(set members.Set) { w.set = set }
func (w *world) Forget(export.Key)         {}

// Revision names what a Sandbox would get: the SandboxTemplate of the name, or what stands for it.
func (w *world) Revision(ctx context.Context, set members.Set) (made members.Made, pod *podtemplate.Pod, err error) {
	w.revisions++
	template := w.templates[set.Template.Name]
	if template == nil {
		if template, err = w.r.template(ctx, keyOf(set.Template.Name)); err != nil {
			return made, nil, err
		}
	}
	if template == nil {
		return made, nil, &outcome.RefusalError{Reason: "TemplateNotUsable", Message: set.Field + `: there is no SandboxTemplate "` + set.Template.Name + `"`}
	}
	made.Revision, made.TemplateRevision = string(template.UID), string(template.UID)
	switch {
	case strings.Contains(set.Change.Patch, "wrong"):
		return made, nil, &outcome.RefusalError{Reason: sandbarv1alpha1.SandboxSetPatchRefused, Message: "correct spec.patch: it is wrong"}
	case set.Change.Patch != "" && set.Change.Patch != "{}":
		made.Revision, made.Differs = made.Revision+set.Change.Patch, placement.PatchedResourcesEqual
	}
	return made, &podtemplate.Pod{}, nil
}

// Try implements tries.
func (w *world) Try(context.Context, string, *podtemplate.Pod) (string, error) {
	w.tried = append(w.tried, w.refuse)
	return w.refuse, nil
}

func (w *world) Of(context.Context, export.Key) ([]members.Member, error) {
	return slices.Clone(w.members), nil
}

func (w *world) Make(_ context.Context, set members.Set) error {
	if w.full != nil {
		return w.full
	}
	w.made++
	m := members.Member{Created: w.now}
	m.UID, m.SetUID, m.Revision, m.State = types.UID(fmt.Sprint("made-", w.made)), set.UID, set.Revision, placement.MemberMaking
	w.members = append(w.members, m)
	return nil
}

func (w *world) Remove(_ context.Context, member members.Member) error {
	w.removing.Lock() // members are removed side by side
	defer w.removing.Unlock()
	w.members = slices.DeleteFunc(w.members, func(m members.Member) bool { return m.ID == member.ID })
	return nil
}

func (w *world) Wake(string)                            {}
func (w *world) TakeClaims(types.UID) members.Claims    { return members.Claims{} }
func (w *world) ReturnClaims(types.UID, members.Claims) {}

// warm has all members become ready.
func (w *world) warm() {
	for i := range w.members {
		w.members[i].State, w.members[i].Ready = placement.MemberWarm, true
		w.members[i].Started = cmp.Or(w.members[i].Started, w.now)
	}
}

// fill looks at a set until it has what it wants.
func (w *world) fill(name string) {
	w.t.Helper()
	for range 10 {
		w.look(name)
		w.warm()
	}
	w.look(name)
	w.events = nil
}

// What needs no template goes on without one. The set ran on with what it had for as long as its template was gone.
func TestASetWithoutItsTemplateGoesOnWithWhatNeedsNone(t *testing.T) {
	without := func(t *testing.T) *world {
		w := newWorld(t)
		w.addTemplate("own", "image")
		w.add("pool", "own", 3).Spec.MemberMaxAge = "1h"
		w.fill("pool")
		if len(w.members) != 3 {
			t.Fatalf("it has %d", len(w.members))
		}
		delete(w.templates, "own")
		w.look("pool")
		return w
	}
	t.Run("nobody can take what it has, and its own field is named", func(t *testing.T) {
		w := without(t)
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "False TemplateNotUsable", "spec.templateRef", `"own"`)
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetAvailable, "False Invalid", "none of the 3")
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetScalingLimited, "True Invalid", "0 of 3 can be taken")
		if s := w.sets["pool"].Status; s.AvailableReplicas != 0 || s.Replicas != 3 || s.Revision == "" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("it keeps what it has", func(t *testing.T) {
		w := without(t)
		made := w.made
		w.members = w.members[:2]
		w.look("pool")
		if len(w.members) != 2 || w.made != made {
			t.Errorf("it has %d, of which %d were made", len(w.members), w.made-made)
		}
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetScalingLimited, "True Invalid")
	})
	t.Run("it scales down", func(t *testing.T) {
		w := without(t)
		w.sets["pool"].Spec.Replicas = 1
		w.look("pool")
		if len(w.members) != 1 {
			t.Errorf("it has %d", len(w.members))
		}
		w.sets["pool"].Spec.Replicas = 0
		w.look("pool")
		if len(w.members) != 0 {
			t.Errorf("it has %d", len(w.members))
		}
	})
	t.Run("what is too old goes", func(t *testing.T) {
		w := without(t)
		w.now = w.now.Add(2 * time.Hour)
		w.look("pool")
		if len(w.members) != 0 {
			t.Errorf("it has %d", len(w.members))
		}
	})
	t.Run("it gives up what does not come up", func(t *testing.T) {
		w := without(t)
		w.members[0].Ready, w.members[0].Trouble = false, members.Trouble{Reason: "CrashLoop", Failing: true, Since: w.now}
		w.look("pool")
		w.now = w.now.Add(failingKept)
		w.look("pool")
		if len(w.members) != 2 {
			t.Errorf("it has %d", len(w.members))
		}
	})
	t.Run("and goes on where it was when the template is back", func(t *testing.T) {
		w := without(t)
		w.addTemplate("own", "image")
		made := w.made
		w.look("pool")
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetAvailable, "True Available")
		if len(w.members) != 3 || w.made != made {
			t.Errorf("it has %d, of which %d were made", len(w.members), w.made-made)
		}
	})
}

// While the operator's settings are not there, nobody knows how many the set may have: that removes nothing.
func TestASetKeepsItsMembersWhileThereAreNoSettings(t *testing.T) {
	w := newWorld(t)
	w.addTemplate("own", "image")
	w.add("pool", "own", 3)
	w.fill("pool")
	w.limitErr = members.ErrNoKind
	w.look("pool")
	if len(w.members) != 3 {
		t.Errorf("it has %d", len(w.members))
	}
	w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "False NotConfigured")
}

func TestATemplateOfTheSetsNameConflictsWithItsOwnInBothOrders(t *testing.T) {
	conflicts := func(t *testing.T, w *world) {
		t.Helper()
		w.look("pool")
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "False NameConflict", `"pool"`, "another name", "spec.templateRef")
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetAvailable, "False Invalid")
	}
	for name, order := range map[string]func(*world){
		"the set is first": func(w *world) {
			w.add("pool", "", 2)
			w.fill("pool")
			w.addTemplate("pool", "another")
		},
		"the template is first": func(w *world) {
			w.addTemplate("pool", "another")
			w.add("pool", "", 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			order(w)
			made := w.made
			conflicts(t, w)
			if w.made != made {
				t.Errorf("%d were made", w.made-made)
			}
			t.Run("until one of them goes", func(t *testing.T) {
				delete(w.templates, "pool")
				w.fill("pool")
				w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "True Valid")
				if len(w.members) != 2 {
					t.Errorf("it has %d", len(w.members))
				}
			})
		})
	}
	t.Run("but not if both say the same", func(t *testing.T) {
		w := newWorld(t)
		w.addTemplate("pool", "pool")
		w.add("pool", "", 1)
		w.fill("pool")
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "True Valid")
		if w.members[0].Revision != "template-pool" {
			t.Errorf("its member is of %s, and Sandboxes are of the SandboxTemplate", w.members[0].Revision)
		}
	})
}

func TestASetIsFoundByTheTemplateThatItNames(t *testing.T) {
	w := newWorld(t)
	w.add("one", "own", 0)
	w.add("two", "own", 0)
	w.add("inline", "", 0)
	w.add("operators", "own", 0).Spec.TemplateRef.Kind = sandbarv1alpha1.RefTemplate
	for name := range w.sets {
		w.look(name)
	}
	find := func(template string, want ...string) {
		t.Helper()
		var got []string
		for _, key := range w.r.references.To(keyOf(template)) {
			got = append(got, key.Name)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("sets of %s (-want +got):\n%s", template, diff)
		}
	}
	find("own", "one", "two")
	find("inline", "inline")
	w.sets["one"].Spec.TemplateRef.Name = "other"
	delete(w.sets, "two")
	w.look("one")
	w.look("two")
	find("own")
	find("other", "one")
}

// A Sandbox, or another set, may refer to the template that a set has itself.
func TestAllThatReferToASetsOwnTemplateAreToldThatItIsAnother(t *testing.T) {
	w := newWorld(t)
	told := func(what string, want ...string) {
		t.Helper()
		w.changed = nil
		w.look("pool")
		if diff := gocmp.Diff(want, w.changed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	w.add("pool", "", 0)
	told("the set is new", "pool")
	told("it is as it was")
	w.sets["pool"].Spec.Replicas = 1
	told("it is scaled")
	w.sets["pool"].Spec.Template = podSaying("another")
	told("it has another template", "pool")
	w.start()
	told("another process looks at it")
	delete(w.sets, "pool")
	told("it is gone", "pool")
	w.add("named", "own", 0)
	w.changed = nil
	if w.look("named"); len(w.changed) > 0 {
		t.Errorf("a set without a template of its own tells of %v", w.changed)
	}
}

func TestScalingLimitedSaysWhyTheSetHasNotAsManyAsItWants(t *testing.T) {
	waits := members.Trouble{Reason: "NoNodeHasRoom", Message: "the pod waits: 0/1 nodes are available", Waits: true}
	crashes := members.Trouble{Reason: "CrashLoop", Message: "exit code 1", Failing: true}
	for name, test := range map[string]struct {
		trouble   members.Trouble
		full      bool
		condition string
		words     []string
		problem   string
		failing   int32
	}{
		"all are there": {condition: "False NotLimited", words: []string{"as many as it is to have"}},
		"one starts":    {trouble: members.Trouble{Reason: "Composing"}, condition: "False NotLimited", words: []string{"2 of 3"}},
		"one waits for a node": {
			trouble: waits, condition: "True NoNodeHasRoom", words: []string{"1 of 3 wait", "0/1 nodes"}, problem: "NoNodeHasRoom",
		},
		"one waits for its quota": {
			trouble: members.Trouble{Reason: outcome.ReasonQuota, Message: "exceeded quota", Waits: true}, condition: "True QuotaExceeded", problem: "QuotaExceeded",
		},
		"one crashes": {
			trouble: crashes, condition: "True ReplicasFailing", words: []string{"1 of 3", "CrashLoop: exit code 1"}, problem: "CrashLoop", failing: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.addTemplate("own", "image")
			w.add("pool", "own", 3)
			w.fill("pool")
			if test.trouble.Reason != "" {
				m := &w.members[2]
				m.State, m.Ready, m.Started, m.Created = placement.MemberMaking, false, time.Time{}, w.now
				m.Trouble = test.trouble
				m.Trouble.Since = w.now
			}
			w.look("pool")
			w.wantCondition("pool", sandbarv1alpha1.SandboxSetScalingLimited, test.condition, test.words...)
			status := w.sets["pool"].Status
			if status.FailingReplicas != test.failing || (test.problem == "") != (len(status.Problems) == 0) || test.problem != "" && status.Problems[0].Reason != test.problem {
				t.Errorf("%d fail, for %+v; want %s", status.FailingReplicas, status.Problems, test.problem)
			}
			t.Run("and no more when that is over", func(t *testing.T) {
				for i := range w.members {
					w.members[i].Trouble = members.Trouble{}
				}
				w.warm()
				w.look("pool")
				w.wantCondition("pool", sandbarv1alpha1.SandboxSetScalingLimited, "False NotLimited")
				if status := w.sets["pool"].Status; len(status.Problems) > 0 || status.FailingReplicas > 0 {
					t.Errorf("%+v", status)
				}
			})
		})
	}
	t.Run("no place is left", func(t *testing.T) {
		w := newWorld(t)
		w.addTemplate("own", "image")
		w.add("pool", "own", 3)
		w.full = &outcome.FullError{Reason: outcome.ReasonWorkspaceLimit, Message: "the workspace is full"}
		w.look("pool")
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetScalingLimited, "True QuotaExceeded", "the workspace is full")
	})
}

// It was thrown away every five minutes, and another one queued behind all that waited.
func TestAMemberThatWaitsForRoomKeepsItsPlace(t *testing.T) {
	w := newWorld(t)
	w.addTemplate("own", "image")
	w.add("pool", "own", 1).Spec.MemberMaxAge = "10m"
	w.look("pool")
	first := w.members[0]
	w.members[0].Trouble = members.Trouble{Reason: "NoNodeHasRoom", Waits: true, Since: w.now}
	for range 10 {
		w.now = w.now.Add(time.Hour)
		if again := w.look("pool"); again != 0 {
			t.Fatalf("it is looked at again in %v", again)
		}
	}
	if len(w.members) != 1 || w.members[0].ID != first.ID || w.made != 1 {
		t.Fatalf("there are %+v", w.members)
	}
	t.Run("and is young when it has started", func(t *testing.T) {
		w.members[0].Trouble = members.Trouble{}
		w.warm()
		w.look("pool")
		w.wantCondition("pool", sandbarv1alpha1.SandboxSetAvailable, "True Available")
	})
}

func TestASetTellsWhatHasBecomeWorse(t *testing.T) {
	w := newWorld(t)
	w.addTemplate("own", "image")
	w.add("pool", "own", 2)
	w.fill("pool")
	tells := func(what string, want ...string) {
		t.Helper()
		w.events = nil
		w.look("pool")
		w.look("pool")
		var got []string
		for _, e := range w.events {
			got = append(got, strings.Join(strings.Fields(e)[:5], " "))
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	tells("nothing changes")
	w.members[0].Ready, w.members[0].Trouble = false, members.Trouble{Reason: "CrashLoop", Message: "exit code 1", Failing: true, Since: w.now}
	tells("one crashes", "Warning MemberFailing pool: 1 of", "Warning ScalingLimited pool: ReplicasFailing: 1")
	w.members[0].Ready, w.members[0].Trouble = true, members.Trouble{}
	tells("it is well again")
	w.members[0].Ready, w.members[0].State, w.members[0].Trouble = false, placement.MemberMaking, members.Trouble{Reason: "NoNodeHasRoom", Message: "no node", Waits: true, Since: w.now}
	tells("one waits", "Warning ScalingLimited pool: NoNodeHasRoom: 1")
	w.warm()
	w.members[0].Trouble = members.Trouble{}
	tells("it has room")
	delete(w.templates, "own")
	tells("the template goes", "Warning Invalid pool: TemplateNotUsable: spec.templateRef:")
}

func TestASetAtRestWritesNothingAndIsNotLookedAtAgain(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"with all that it wants": func(w *world) { w.fill("pool") },
		"while it is paused":     func(w *world) { w.sets["pool"].Spec.Paused = true; w.look("pool") },
		"that wants none":        func(w *world) { w.sets["pool"].Spec.Replicas = 0; w.look("pool") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.addTemplate("own", "image")
			w.add("pool", "own", 3)
			prepare(w)
			w.writes, w.made = 0, 0
			for range 3 {
				w.now = w.now.Add(time.Minute)
				if again := w.look("pool"); again != 0 {
					t.Errorf("it is looked at again in %v", again)
				}
			}
			if w.writes != 0 || w.made != 0 || len(w.events) > 0 {
				t.Errorf("%d writes, %d members, events %v", w.writes, w.made, w.events)
			}
		})
	}
	t.Run("and one without a template is looked at, and not written", func(t *testing.T) {
		w := newWorld(t)
		w.add("pool", "own", 3)
		w.look("pool")
		w.writes = 0
		for range 3 {
			w.now = w.now.Add(time.Minute)
			if again := w.look("pool"); again != lookAgain {
				t.Errorf("it is looked at again in %v", again)
			}
		}
		if w.writes != 0 {
			t.Errorf("%d writes", w.writes)
		}
	})
}

func TestAStatusThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.addTemplate("own", "image")
	w.add("pool", "own", 1)
	w.r.objects = unwritable{w}
	if _, err := w.r.Reconcile(t.Context(), keyOf("pool")); err == nil {
		t.Fatal("the reconcile is not tried again")
	}
	if len(w.events) > 0 {
		t.Errorf("it was told what no status says: %v", w.events)
	}
}

type unwritable struct{ *world }

func (unwritable) Patch(context.Context, export.Key, []byte, ...string) (*unstructured.Unstructured, error) {
	return nil, errors.New("away")
}

func (w *world) patch(name, patch string) {
	w.sets[name].Spec.Patch = &runtime.RawExtension{Raw: []byte(patch)}
}

func TestASetWhosePatchIsRefusedGoesOnWithTheFormerOne(t *testing.T) {
	for name, refuse := range map[string]func(*world){
		"by what may be said":    func(w *world) { w.patch("pool", `"wrong"`) },
		"by the runtime cluster": func(w *world) { w.patch("pool", `"b"`); w.refuse = "no" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.addTemplate("own", "image")
			w.add("pool", "own", 2)
			w.patch("pool", `"a"`)
			w.fill("pool")
			if s := w.sets["pool"].Status; !s.Patched || s.AvailableReplicas != 2 || len(w.tried) != 1 {
				t.Fatalf("%+v, %d tries", s, len(w.tried))
			}
			was := w.sets["pool"].Status.Revision
			refuse(w)
			w.look("pool")
			w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "False PatchRefused", "spec.patch", "goes on with its former patch")
			w.wantCondition("pool", sandbarv1alpha1.SandboxSetAvailable, "True Available")
			w.members = w.members[:1] // one is taken
			w.look("pool")
			if len(w.members) != 2 || w.members[1].Revision != was || w.sets["pool"].Status.Revision != was {
				t.Errorf("the revision is %s, and was %s; members %+v", w.sets["pool"].Status.Revision, was, w.members)
			}
			t.Run("also when the provider starts, as far as it has any", func(t *testing.T) {
				w.warm()
				made := w.made
				w.start()
				w.members = w.members[:1]
				w.look("pool")
				w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "False PatchRefused")
				w.wantCondition("pool", sandbarv1alpha1.SandboxSetAvailable, "True Available")
				if w.made != made {
					t.Errorf("%d were made, of what nobody knows", w.made-made)
				}
			})
			t.Run("until it is corrected", func(t *testing.T) {
				w.refuse = ""
				w.patch("pool", `"c"`)
				w.fill("pool")
				w.wantCondition("pool", sandbarv1alpha1.SandboxSetValid, "True Valid")
				if s := w.sets["pool"].Status; s.Revision == was || s.UpdatedReplicas != 2 || s.Replicas != 2 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestAPodWithAPatchIsTriedOnceForEachRevision(t *testing.T) {
	w := newWorld(t)
	w.addTemplate("own", "image")
	w.add("plain", "own", 1)
	w.look("plain")
	w.add("empty", "own", 1)
	w.patch("empty", `{}`)
	w.look("empty")
	if len(w.tried) > 0 || w.sets["empty"].Status.Patched {
		t.Errorf("a pod without a patch was tried, or is patched: %+v", w.sets["empty"].Status)
	}
	w.add("patched", "own", 1)
	w.patch("patched", `"a"`)
	for range 3 {
		w.look("patched")
	}
	if len(w.tried) != 1 {
		t.Errorf("tried %d times", len(w.tried))
	}
	w.patch("patched", `"b"`)
	w.look("patched")
	if len(w.tried) != 2 {
		t.Errorf("tried %d times", len(w.tried))
	}
}
