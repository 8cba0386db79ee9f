// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// maxSaved is the size in bytes of a saved plan that is read: 5,000 objects of etcd's
// limit are never in one change, and the digests of 1,000 Clusters take 10 MB.
const maxSaved = 256 << 20

// Save makes the plan of a change, with what is needed to carry it out.
func Save(ctx context.Context, o Options, change []Write) (*planv1.SavedPlan, error) {
	s := &planv1.SavedPlan{
		TypeMeta: metav1.TypeMeta{APIVersion: planv1.APIVersion, Kind: planv1.SavedKind},
		Digests:  map[string]map[string]string{},
	}
	for _, w := range change {
		if w.Waits {
			return nil, errors.New("the change has steps that wait for each other: it cannot be saved")
		}
		data, err := w.Object.MarshalJSON()
		if err != nil {
			return nil, err
		}
		s.Writes = append(s.Writes, planv1.SavedWrite{Patch: w.Patch, Delete: w.Delete, Object: runtime.RawExtension{Raw: bytes.TrimSpace(data)}})
	}
	m, err := newMaker(ctx, o, change)
	if err != nil {
		return nil, err
	}
	m.digests = s.Digests
	plan, err := m.make(ctx)
	if err != nil {
		return nil, err
	}
	s.Manager, s.Horizon.Duration, s.Plan = m.Manager, m.Horizon, *plan
	if s.Management, err = management(ctx, o.Mgmt); err != nil {
		return nil, err
	}
	s.Checksum, err = checksum(s)
	return s, err
}

// management identifies a management cluster.
func management(ctx context.Context, mgmt client.Client) (types.UID, error) {
	namespace := &corev1.Namespace{}
	if err := mgmt.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("identify the management cluster: %w", err)
	}
	return namespace.UID, nil
}

// SameManagement returns an error if a plan was saved of another management cluster.
func SameManagement(ctx context.Context, mgmt client.Client, s *planv1.SavedPlan) error {
	uid, err := management(ctx, mgmt)
	if err == nil && uid != s.Management {
		err = errors.New("the plan is of another management cluster: choose that with --kubeconfig or --context, or make a plan of this one")
	}
	return err
}

func checksum(s *planv1.SavedPlan) (string, error) {
	without := *s
	without.Checksum = ""
	data, err := json.Marshal(without)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// digest returns the digests of objects by name. Of a Secret only its version is in it:
// a digest of a short value can be guessed.
func digest(scheme *runtime.Scheme, objects []client.Object) (map[string]string, error) {
	all := map[string]string{}
	for _, obj := range objects {
		gvks, _, err := scheme.ObjectKinds(obj)
		if err != nil {
			return nil, err
		}
		kind := gvks[0].Kind
		if kind == "PlanGuard" {
			continue // it is not what decides
		}
		var content any = []string{string(obj.GetUID()), obj.GetResourceVersion()}
		if _, secret := obj.(*corev1.Secret); !secret {
			if content, err = without(obj); err != nil {
				return nil, err
			}
		}
		data, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		all[kind+" "+client.ObjectKeyFromObject(obj).String()] = hex.EncodeToString(sum[:8])
	}
	return all, nil
}

// without is an object without what a write changes that changes nothing else.
func without(obj client.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	copied := (&unstructured.Unstructured{Object: fields}).DeepCopy()
	copied.SetResourceVersion("")
	copied.SetManagedFields(nil)
	switch obj.(type) {
	case *corev1.ResourceQuota, *addonsv1.ClusterResourceSet:
		delete(copied.Object, "status") // it is about all Clusters of the namespace
	}
	return copied.Object, nil
}

// WriteSaved writes a saved plan to a file that only its owner can read.
func WriteSaved(name string, s *planv1.SavedPlan) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.WriteOutput(name, append(data, '\n'))
}

// ReadSaved reads a saved plan, and refuses what is not one, or not whole.
func ReadSaved(name string) (*planv1.SavedPlan, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSaved+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSaved {
		return nil, fmt.Errorf("%s: it is larger than %d MiB, which no saved plan is", name, maxSaved>>20)
	}
	s := &planv1.SavedPlan{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s is no saved plan, or is cut off (%w): save the plan again with `capstan plan --save`", name, err)
	}
	if s.APIVersion != planv1.APIVersion || s.Kind != planv1.SavedKind {
		return nil, fmt.Errorf("%s has %s %s, and not a %s of %s: save the plan with `capstan plan --save`", name, s.APIVersion, s.Kind, planv1.SavedKind, planv1.APIVersion)
	}
	sum, err := checksum(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if sum != s.Checksum {
		return nil, fmt.Errorf("%s was changed after it was saved: its checksum is not that of its content; save the plan again with `capstan plan --save`", name)
	}
	return s, nil
}

// Writes returns the change of a saved plan.
func Writes(s *planv1.SavedPlan) (all []Write, err error) {
	for i, w := range s.Writes {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(w.Object.Raw); err != nil {
			return nil, fmt.Errorf("object %d of the saved plan: %w", i+1, err)
		}
		all = append(all, Write{Object: obj, Patch: w.Patch, Delete: w.Delete})
	}
	return all, nil
}

// Stale lists what has changed in a management cluster since a plan was saved, in
// sentences. It sends the change as a dry run, and so finds out whether the server still
// takes it.
func Stale(ctx context.Context, o Options, s *planv1.SavedPlan) ([]string, error) {
	o.Manager, o.Horizon = s.Manager, s.Horizon.Duration
	change, err := Writes(s)
	if err != nil {
		return nil, err
	}
	m, err := newMaker(ctx, o, change)
	if err != nil {
		return nil, err
	}
	var all []string
	for i, w := range m.change {
		if i >= len(s.Plan.Change) || !equality.Semantic.DeepEqual(w.name, s.Plan.Change[i]) {
			all = append(all, fmt.Sprintf("the change does something else to %s %s now", w.name.Kind, w.name.Name))
		}
	}
	reached, err := m.reached(ctx)
	if err != nil {
		return nil, err
	}
	left := maps.Clone(s.Digests)
	for _, key := range reached {
		was, known := left[key.String()]
		delete(left, key.String())
		if !known {
			all = append(all, fmt.Sprintf("the change reaches Cluster %s now", key))
			continue
		}
		shard, err := m.reader.Read(ctx, key, m.with(key))
		if err != nil {
			return nil, err
		}
		is, err := digest(m.Mgmt.Scheme(), shard.Objects)
		if err != nil {
			return nil, err
		}
		all = append(all, differing(was, is)...)
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		all = append(all, fmt.Sprintf("the change does not reach Cluster %s any longer", key))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// differing are the objects whose digests differ.
func differing(was, is map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		switch now, exists := is[name]; {
		case !exists:
			all = append(all, name+" does not exist any longer")
		case now != was[name]:
			all = append(all, name+" has changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, existed := was[name]; !existed {
			all = append(all, name+" is new")
		}
	}
	return all
}
