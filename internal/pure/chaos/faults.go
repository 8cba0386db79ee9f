// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// Begin sets a fault on a LocalCluster or a LocalMachine, and records in an annotation
// that it is from this package. A fault that the object already has is not recorded: it
// belongs to the client that set it.
func Begin(obj metav1.Object, fault string) error {
	f, err := faultsOf(obj)
	if err != nil {
		return err
	}
	if f.add(fault) {
		note(obj, append(Noted(obj), fault))
	}
	return nil
}

// End removes a fault that Begin set, if it is still set.
func End(obj metav1.Object, fault string) {
	noted := Noted(obj)
	if !slices.Contains(noted, fault) {
		return
	}
	note(obj, slices.DeleteFunc(noted, func(n string) bool { return n == fault }))
	if f, err := faultsOf(obj); err == nil { // else the object has been changed to another kind of cluster or machine
		f.remove(fault)
	}
}

// Noted returns the faults that Begin set on an object and End has not removed.
func Noted(obj metav1.Object) []string {
	return strings.FieldsFunc(obj.GetAnnotations()[infrav1.ChaosAnnotation], func(r rune) bool { return r == ',' })
}

func note(obj metav1.Object, faults []string) {
	all := obj.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	if all[infrav1.ChaosAnnotation] = strings.Join(faults, ","); len(faults) == 0 {
		delete(all, infrav1.ChaosAnnotation)
	}
	obj.SetAnnotations(all)
}

// faults are the faults of one object.
type faults interface {
	add(fault string) bool // unless it is set already
	remove(fault string)
}

func faultsOf(obj metav1.Object) (faults, error) {
	switch o := obj.(type) {
	case *infrav1.LocalCluster:
		if s := o.Spec.Simulated; s != nil {
			return list[infrav1.ClusterFault]{&s.Faults}, nil
		}
	case *infrav1.LocalMachine:
		if s := o.Spec.Simulated; s != nil {
			return list[infrav1.MachineFault]{&s.Faults}, nil
		}
	}
	return nil, fmt.Errorf("%s/%s is not simulated: faults are for what is", obj.GetNamespace(), obj.GetName())
}

type list[T ~string] struct{ of *[]T }

func (l list[T]) add(fault string) bool {
	if slices.Contains(*l.of, T(fault)) {
		return false
	}
	*l.of = append(*l.of, T(fault))
	return true
}

func (l list[T]) remove(fault string) {
	*l.of = slices.DeleteFunc(*l.of, func(f T) bool { return f == T(fault) })
}
