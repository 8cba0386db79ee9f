// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var configMaps = Target{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", When: map[string]string{"b": "true", "a": "false"}}

// defaulting sets a key; refusing refuses the key "bad" and removals.
var (
	defaulting = Default(configMaps, func(c, _ *corev1.ConfigMap) {
		if c.Data == nil {
			c.Data = map[string]string{"a/b": "c"}
		}
	})
	refusing = Check(configMaps, func(c, old *corev1.ConfigMap) (errs field.ErrorList) {
		if _, bad := c.Data["bad"]; bad {
			errs = append(errs, field.Forbidden(field.NewPath("data").Key("bad"), "choose another key"))
		}
		if old != nil && len(old.Data) > len(c.Data) {
			errs = append(errs, field.Required(field.NewPath("data"), "nothing may go"))
		}
		return errs
	})
)

func post(t *testing.T, path, body string) (int, *admissionv1.AdmissionReview) {
	t.Helper()
	handler := Handler([]Webhook{defaulting, refusing})
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
	review := &admissionv1.AdmissionReview{}
	if recorder.Code == http.StatusOK {
		if err := json.NewDecoder(bytes.NewReader(recorder.Body.Bytes())).Decode(review); err != nil {
			t.Fatalf("%v: %s", err, recorder.Body)
		}
	}
	return recorder.Code, review
}

const reviewOf = `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "name": "n", "namespace": "ns", "object": `

func TestHandlerAnswersReviews(t *testing.T) {
	t.Parallel()
	const mutate, validate = "/mutate--v1-configmap", "/validate--v1-configmap"
	tests := map[string]struct {
		path, body string
		wantCode   int
		want       string // patch or message
		wantOK     bool
	}{
		"sets what is missing and keeps what it does not know": {mutate, reviewOf + `{"metadata": {"name": "n"}, "unknown": 1}}}`, 200, `[{"op":"add","path":"/data","value":{"a/b":"c"}}]`, true},
		"leaves alone what is complete":                        {mutate, reviewOf + `{"data": {"x": "y"}}}}`, 200, "", true},
		"lets pass":                                            {validate, reviewOf + `{"data": {"x": "y"}}}}`, 200, "", true},
		"refuses, naming object, field and remedy":             {validate, reviewOf + `{"data": {"bad": "y"}}}}`, 200, `ConfigMap "n" is invalid: data[bad]: Forbidden: choose another key`, false},
		"compares with the old object":                         {validate, reviewOf + `{}, "oldObject": {"data": {"x": "y"}}}}`, 200, `ConfigMap "n" is invalid: data: Required value: nothing may go`, false},
		"leaves an object of another form to the schema":       {mutate, reviewOf + `{"data": 7}}}`, 200, "", true},
		"refuses an object of another form":                    {validate, reviewOf + `{"data": 7}}}`, 200, "decode object: json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string", false},
		"does not take rubbish":                                {validate, "rubbish", 400, "", false},
		"does not take another kind":                           {validate, `{"kind": "Other", "request": {}}`, 400, "", false},
		"does not take a review without request":               {validate, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, 400, "", false},
		"does not take another path":                           {"/other", reviewOf + `{}}}`, 404, "", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, review := post(t, tc.path, tc.body)
			if code != tc.wantCode {
				t.Fatalf("code %d, want %d", code, tc.wantCode)
			}
			if code != http.StatusOK {
				return
			}
			got := string(review.Response.Patch)
			if review.Response.Result != nil {
				got = review.Response.Result.Message
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || review.Response.Allowed != tc.wantOK || review.Response.UID != "u" {
				t.Errorf("allowed %v, uid %s (-want +got):\n%s", review.Response.Allowed, review.Response.UID, diff)
			}
		})
	}
}

func TestValidateDistinguishesRefusalFromFailure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		verdict  Result
		err      error
		wantCode int32
	}{
		"fields":    {verdict: Result{Errors: field.ErrorList{field.Required(field.NewPath("x"), "")}}, wantCode: 422},
		"forbidden": {verdict: Result{Forbidden: errors.New("not now")}, wantCode: 403},
		"failure":   {err: errors.New("no answer"), wantCode: 500},
		"warnings":  {verdict: Result{Warnings: []string{"old"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := Validate(configMaps, func(context.Context, Review[corev1.ConfigMap]) (Result, error) { return tc.verdict, tc.err })
			req := &admissionv1.AdmissionRequest{}
			req.Object.Raw = []byte("{}")
			got := w.Admit(t.Context(), req)
			if got.Allowed != (tc.wantCode == 0) || got.Result != nil && got.Result.Code != tc.wantCode {
				t.Errorf("allowed %v, result %v, want code %d", got.Allowed, got.Result, tc.wantCode)
			}
			if diff := cmp.Diff(tc.verdict.Warnings, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigurationsSayEverything(t *testing.T) {
	t.Parallel()
	mutating, validating := Configurations("capstan", []Webhook{defaulting, refusing}, func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new("https://here" + path)}
	})
	if len(mutating.Webhooks) != 1 || len(validating.Webhooks) != 1 || mutating.Name != "capstan" || validating.Name != "capstan" {
		t.Fatalf("%v %v", mutating, validating)
	}
	m, v := mutating.Webhooks[0], validating.Webhooks[0]
	if m.Name != "default.configmap." || *m.ClientConfig.URL != "https://here/mutate--v1-configmap" || *m.ReinvocationPolicy != admissionregistrationv1.NeverReinvocationPolicy {
		t.Errorf("mutating webhook %v", m)
	}
	want := defaulted()
	want.Name, want.ClientConfig.URL = "validation.configmap.", new("https://here/validate--v1-configmap")
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("validating webhook (-want +got):\n%s", diff)
	}
}

// defaulted has all the values that an API server would default.
func defaulted() admissionregistrationv1.ValidatingWebhook {
	w := refusing.configuration(admissionregistrationv1.WebhookClientConfig{})
	w.Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}, Scope: new(admissionregistrationv1.NamespacedScope)},
	}}
	w.FailurePolicy, w.MatchPolicy = new(admissionregistrationv1.Fail), new(admissionregistrationv1.Equivalent)
	w.SideEffects, w.TimeoutSeconds, w.AdmissionReviewVersions = new(admissionregistrationv1.SideEffectClassNone), new(int32(10)), []string{"v1"}
	w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "false"}, {Name: "b", Expression: "true"}}
	return w
}

func TestGuardsAreAskedAboutDeletions(t *testing.T) {
	t.Parallel()
	target := Target{Kind: schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Thing"}, Resource: "things"}
	w := Guard(target, func(_ context.Context, r Review[metav1.PartialObjectMetadata]) (Result, error) {
		if r.Old.Labels["used"] != "" {
			return Result{Forbidden: errors.New("it is used")}, nil
		}
		return Result{}, nil
	})
	if got := w.Name() + " " + w.Path(); got != "deletion.thing.g.io /guard-g-io-v1-thing" {
		t.Errorf("is %s", got)
	}
	for name, tc := range map[string]struct {
		operation   admissionv1.Operation
		object, old string
		code        int32 // 0: it may go
	}{
		"unused":          {admissionv1.Delete, "", `{"metadata": {"name": "a"}}`, 0},
		"used":            {admissionv1.Delete, "", `{"metadata": {"name": "a", "labels": {"used": "x"}}}`, http.StatusForbidden},
		"nothing":         {admissionv1.Delete, "", "", http.StatusBadRequest},
		"no object":       {admissionv1.Delete, "", "[]", http.StatusBadRequest},
		"with an object":  {admissionv1.Delete, "{}", "{}", http.StatusBadRequest},
		"of an update":    {admissionv1.Update, "{}", "{}", http.StatusBadRequest},
		"of no operation": {"", "{}", "{}", http.StatusBadRequest},
	} {
		req := &admissionv1.AdmissionRequest{Operation: tc.operation, Name: "a"}
		req.Object.Raw, req.OldObject.Raw = []byte(tc.object), []byte(tc.old)
		got := w.Admit(t.Context(), req)
		if got.Allowed != (tc.code == 0) || !got.Allowed && got.Result.Code != tc.code {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
