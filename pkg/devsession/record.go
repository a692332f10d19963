// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Record is what the placement of a group keeps of the session of one component. The objects of the session are made of it,
// and of the component's copy, at each look at the group.
type Record struct {
	// Name and UID are those of the DevSession. Its namespace and its workspace are those of the group.
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Spec is the one that was checked last.
	Spec sandbarv1alpha1.DevSessionSpec `json:"spec"`
	// Stage is how far the switch is, and Since when that began, in whole seconds.
	Stage Stage     `json:"stage"`
	Since time.Time `json:"since"`
}

// At is the record at another stage, which begins now; the same if the stage is.
func (r Record) At(stage Stage, now time.Time) Record {
	if r.Stage != stage {
		r.Stage, r.Since = stage, now.UTC().Truncate(time.Second)
	}
	return r
}

// Same reports whether two records say the same.
func (r Record) Same(other Record) bool {
	return r.Name == other.Name && r.UID == other.UID && r.Stage == other.Stage && r.Since.Equal(other.Since) && equality.Semantic.DeepEqual(r.Spec, other.Spec)
}

// Selector chooses the pods of a session of a placement.
func Selector(placementUID string, session types.UID) map[string]string {
	return map[string]string{placement.LabelInstanceUID: placementUID, placement.LabelSessionUID: string(session)}
}

// Names of the objects of a session, by its name.
const (
	suffixObjects   = "-dev"
	suffixWorkspace = "-workspace"
)

// ObjectName is the name of the Deployment of a session, and of its control Service.
func ObjectName(session string) string { return session + suffixObjects }

// ClaimName is the name of the claim of its workspace.
func ClaimName(session string) string { return session + suffixWorkspace }
