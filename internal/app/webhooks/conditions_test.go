// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

// called evaluates the conditions of a webhook as an API server does: whether
// it is called for a write.
func called(t *testing.T, w webhook.Webhook, obj, old map[string]any) bool {
	t.Helper()
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var conditions []admissioncel.ExpressionAccessor
	for name, expression := range w.When {
		conditions = append(conditions, &matchconditions.MatchCondition{Name: name, Expression: expression})
	}
	evaluator := compiler.CompileCondition(conditions, admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	matcher := matchconditions.NewMatcher(evaluator, new(admissionregistrationv1.Fail), "webhook", "test", w.Name())
	result := matcher.Match(t.Context(), attributes(w, obj, old), nil, nil)
	if result.Error != nil {
		data, _ := json.MarshalIndent(obj, "", " ")
		t.Fatalf("%s: %v\nobject %s", w.Name(), result.Error, data)
	}
	return result.Matches
}

func attributes(w webhook.Webhook, obj, old map[string]any) *admission.VersionedAttributes {
	operation, object := admission.Create, &unstructured.Unstructured{Object: obj}
	v := &admission.VersionedAttributes{VersionedKind: w.Kind, VersionedObject: object}
	if old != nil {
		operation, v.VersionedOldObject = admission.Update, &unstructured.Unstructured{Object: old}
	}
	v.Attributes = admission.NewAttributesRecord(object, nil, w.Kind, "ns", "name", schema.GroupVersionResource{Group: w.Kind.Group, Version: w.Kind.Version, Resource: w.Resource}, "", operation, &metav1.CreateOptions{}, false, nil)
	return v
}
