// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// BenchmarkFortyVariables measures one computation of a Cluster's variables: half of
// them have a rule, and each is set.
func BenchmarkFortyVariables(b *testing.B) {
	d, t := &Definitions{byName: map[string]*Definition{}}, &clusterv1.Topology{}
	for i := range 40 {
		rule := ""
		if i%2 == 0 {
			rule = fmt.Sprintf(`, x-kubernetes-validations: [{rule: "self.size.size() < %d && self.count >= 0"}]`, 20+i)
		}
		text := `[{name: v, required: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: string, maxLength: 100}, count: {type: integer, default: 1}}` + rule + `}}}]`
		definition := builder.Parse[[]clusterv1.ClusterClassVariable](b, text)
		schema, err := Compile((*definition)[0].Schema)
		if err != nil {
			b.Fatal(err)
		}
		d.all = append(d.all, Definition{Name: fmt.Sprint("v", i), Required: true, Schema: schema})
		v := clusterv1.ClusterVariable{Name: fmt.Sprint("v", i)}
		v.Value.Raw = []byte(`{"size": "10Gi", "count": 3}`)
		t.Variables = append(t.Variables, v)
	}
	for i := range d.all {
		d.byName[d.all[i].Name] = &d.all[i]
	}
	for b.Loop() {
		if errs := append(d.Default(field.NewPath("t"), t), d.Validate(field.NewPath("t"), t, t)...); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
