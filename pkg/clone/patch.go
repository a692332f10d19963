// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// MaxCopiesBytes is how large all rendered copies of an instance may be together, as JSON. They are one object of kro's, beside
// those that the instance had before of components that are refused, and an object has to fit into etcd (1.5 MiB).
//
// MaxDisclosedBytes is how large the whole pod templates are together, as JSON, that the status of an instance shows (disclosure
// Template of its Baseline); those of the components after it are left out.
const (
	MaxCopiesBytes    = 640 << 10
	MaxDisclosedBytes = 512 << 10
)

// MaxTemplateBytes is how large the JSON of a pod template may become by a patch. The attack: 64 operations that each
// copy all that is there make 2^64 bytes of one.
const MaxTemplateBytes = 256 << 10

// patchable matches the pointers of a patch. The metadata of a pod template has more fields, which a tenant does not change.
var patchable = regexp.MustCompile(`^/(spec/|metadata/(labels|annotations)(/|$))`)

// patchOptions are those of RFC 6902 alone: an index of -1 is not the last element, and a path is not made.
var patchOptions = func() *jsonpatch.ApplyOptions {
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.AccumulatedCopySizeLimit = MaxTemplateBytes
	return options
}()

// patch applies the patch, one operation after the other, and reads the result strictly: a field that is misspelt is
// refused and not dropped.
func (r *rendering) patch() error {
	operations := r.Component.PodTemplatePatch
	if len(operations) == 0 {
		return nil
	}
	if n, most := len(operations), sandbarv1alpha1.MaxPodTemplatePatchOperations; n > most {
		return refuse(InvalidSpec, "podTemplatePatch: %d operations are too many; have %d at most", n, most)
	}
	document, err := json.Marshal(&r.template)
	if err != nil {
		return fmt.Errorf("encoding the pod template of %s: %w", r.Snapshot.Source, err)
	}
	size, most := 0, max(MaxTemplateBytes, len(document))
	for i := range operations {
		encoded, err := encodeOperation(&operations[i])
		if err != nil {
			return refuse(InvalidSpec, "%s: %v", at(i, &operations[i]), err)
		}
		if size += len(encoded); size > sandbarv1alpha1.MaxPodTemplatePatchBytes {
			return refuse(InvalidSpec, "podTemplatePatch: is longer than %d bytes, which are the most; use overrides, or fewer operations", sandbarv1alpha1.MaxPodTemplatePatchBytes)
		}
		if document, err = apply(document, encoded); err != nil {
			return refuse(RenderFailed, "%s: does not apply to the pod template of %s: %v", at(i, &operations[i]), r.Snapshot.Source, err)
		}
		if len(document) > most {
			return refuse(RenderFailed, "%s: makes the pod template longer than %d bytes, which are the most; copy or add less", at(i, &operations[i]), most)
		}
	}
	return r.readPatched(document)
}

// at names an operation in messages.
func at(i int, o *sandbarv1alpha1.PatchOperation) string {
	return fmt.Sprintf("podTemplatePatch[%d]: %s %s", i, o.Op, o.Path)
}

// encodeOperation returns an operation as RFC 6902 has it, or says what is wrong with it.
func encodeOperation(o *sandbarv1alpha1.PatchOperation) ([]byte, error) {
	operation := map[string]any{"op": o.Op, "path": o.Path}
	if !patchable.MatchString(o.Path) {
		return nil, errors.New("path has to be below /spec, /metadata/labels or /metadata/annotations")
	}
	switch o.Op {
	case "add", "replace", "test":
		if o.Value == nil || len(o.Value.Raw) == 0 {
			return nil, errors.New("value is missing; give one, or use remove for null")
		}
		operation["value"] = json.RawMessage(o.Value.Raw)
	case "move", "copy":
		if !patchable.MatchString(o.From) {
			return nil, fmt.Errorf("from %q has to be below /spec, /metadata/labels or /metadata/annotations", o.From)
		}
		operation["from"] = o.From
	case "remove":
	default:
		return nil, fmt.Errorf("op %q is unknown; use add, remove, replace, move, copy or test", o.Op)
	}
	encoded, err := json.Marshal([]any{operation})
	if err != nil {
		return nil, fmt.Errorf("value is not JSON: %w", err)
	}
	return encoded, nil
}

func apply(document, operation []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(operation)
	if err != nil {
		return nil, err
	}
	return patch.ApplyWithOptions(document, patchOptions)
}

// readPatched takes a patched document for the template.
func (r *rendering) readPatched(document []byte) error {
	patched := corev1.PodTemplateSpec{}
	problems, err := kjson.UnmarshalStrict(document, &patched)
	if err != nil {
		return refuse(RenderFailed, "podTemplatePatch: does not leave a pod template: %v; correct the type of the field", err)
	}
	if len(problems) > 0 {
		texts := make([]string, len(problems))
		for i, problem := range problems {
			texts[i] = problem.Error()
		}
		return refuse(RenderFailed, "podTemplatePatch: does not leave a pod template: %s; correct the name of the field", strings.Join(texts, "; "))
	}
	r.template = patched
	return nil
}
