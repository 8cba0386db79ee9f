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

// TestMalformedReviewsAreRefused: functions behind a webhook rely on an object, and on an
// old one for each update.
func TestMalformedReviewsAreRefused(t *testing.T) {
	t.Parallel()
	called := func(_ context.Context, r Review[metav1.PartialObjectMetadata]) (Result, error) {
		if r.Object == nil {
			return Result{}, errors.New("called without an object")
		}
		return Result{}, nil
	}
	kind := schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Thing"}
	things := Validate(Target{Kind: kind, Resource: "things"}, called)
	scale := Validate(Target{Kind: kind, Resource: "things/scale", Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update}}, called)
	any := Validate(Target{Kind: kind, Resource: AnyResource}, called)
	of := func(group, resource, sub string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) {
			r.Resource, r.SubResource = metav1.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, sub
		}
	}
	tests := map[string]struct {
		webhook     Webhook
		operation   admissionv1.Operation
		object, old string
		change      func(*admissionv1.AdmissionRequest)
		want        string // "" is admitted
	}{
		"a creation":                       {things, "CREATE", "{}", "", of("g.io", "things", ""), ""},
		"an update":                        {things, "UPDATE", "{}", "{}", of("g.io", "things", ""), ""},
		"no operation, without an old one": {things, "", "{}", "null", nil, ""},
		"a deletion":                       {things, "DELETE", "", "{}", nil, "is about the operation DELETE"},
		"a connection":                     {things, "CONNECT", "{}", "", nil, "is about the operation CONNECT"},
		"nothing":                          {things, "CREATE", "", "", nil, "has no object"},
		"null":                             {things, "CREATE", " null ", "", nil, "has no object"},
		"an update of nothing":             {things, "UPDATE", "{}", "", nil, "of an update has no oldObject"},
		"a creation of what there is":      {things, "CREATE", "{}", "{}", nil, "of a creation has an oldObject"},
		"another resource":                 {things, "CREATE", "{}", "", of("g.io", "others", ""), "is about others.g.io"},
		"another group":                    {things, "CREATE", "{}", "", of("h.io", "things", ""), "is about things.h.io"},
		"its subresource":                  {things, "UPDATE", "{}", "{}", of("g.io", "things", "status"), "is about things/status.g.io"},
		"another kind":                     {things, "CREATE", "{}", "", func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Other" }, "is about the kind Other"},
		"a scale":                          {scale, "UPDATE", "{}", "{}", func(r *admissionv1.AdmissionRequest) { of("g.io", "things", "scale")(r); r.Kind.Kind = "Scale" }, ""},
		"a scale of all":                   {scale, "UPDATE", "{}", "{}", of("g.io", "things", ""), "is about things.g.io"},
		"any kind of a group":              {any, "CREATE", "{}", "", of("g.io", "others", ""), ""},
		"any kind of another group":        {any, "CREATE", "{}", "", of("h.io", "others", ""), "is about others.h.io"},
		"a subresource of any":             {any, "UPDATE", "{}", "{}", of("g.io", "others", "status"), "is about others/status.g.io"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &admissionv1.AdmissionRequest{UID: "u", Operation: tc.operation}
			req.Object.Raw, req.OldObject.Raw = []byte(tc.object), []byte(tc.old)
			if tc.change != nil {
				tc.change(req)
			}
			got := tc.webhook.Admit(t.Context(), req)
			if got.Allowed != (tc.want == "") || got.UID != "u" {
				t.Fatalf("%+v", got)
			}
			if want := "this AdmissionReview is not for " + tc.webhook.Name() + ": it " + tc.want; !got.Allowed && (got.Result.Message != want || got.Result.Code != http.StatusBadRequest) {
				t.Errorf("%d %s, want %s", got.Result.Code, got.Result.Message, want)
			}
		})
	}
}

// TestNamesAndPathsDiffer: an API server refuses two webhooks of one name, and a path
// serves one.
func TestNamesAndPathsDiffer(t *testing.T) {
	t.Parallel()
	kind := schema.GroupVersionKind{Group: "g.io", Version: "v1", Kind: "Thing"}
	check := func(_, _ *corev1.ConfigMap) field.ErrorList { return nil }
	review := func(context.Context, Review[corev1.ConfigMap]) (Result, error) { return Result{}, nil }
	target := Target{Kind: kind, Resource: "things"}
	other := target
	other.Purpose = "plan"
	scale := target
	scale.Resource = "things/scale"
	want := map[string]string{
		"default.thing.g.io": "/mutate-g-io-v1-thing", "validation.thing.g.io": "/validate-g-io-v1-thing", "gate.thing.g.io": "/gate-g-io-v1-thing", "deletion.thing.g.io": "/guard-g-io-v1-thing",
		"plan-validation.thing.g.io": "/plan-validate-g-io-v1-thing", "validation.thing-scale.g.io": "/validate-g-io-v1-thing-scale", "plan-deletion.thing.g.io": "/plan-guard-g-io-v1-thing",
	}
	got := map[string]string{}
	for _, w := range []Webhook{Mutate(target, review), Check(target, check), Gate(target, check), Guard(target, review), Check(other, check), Check(scale, check), Guard(other, review)} {
		got[w.Name()] = w.Path()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFinalizerIsAddedAtCreation(t *testing.T) {
	t.Parallel()
	w := Finalizer[corev1.ConfigMap](configMaps, "x.io/held")
	for name, tc := range map[string]struct{ object, want string }{
		"none":  {`{"metadata":{"name":"n"}}`, `[{"op":"add","path":"/metadata/finalizers","value":["x.io/held"]}]`},
		"other": {`{"metadata":{"finalizers":["a"]}}`, `[{"op":"add","path":"/metadata/finalizers/1","value":"x.io/held"}]`},
		"it":    {`{"metadata":{"finalizers":["x.io/held"]}}`, ""},
	} {
		req := &admissionv1.AdmissionRequest{Operation: admissionv1.Create}
		req.Object.Raw = []byte(tc.object)
		if got := w.Admit(t.Context(), req); !got.Allowed || string(got.Patch) != tc.want {
			t.Errorf("%s: %+v, patch %s, want %s", name, got.Result, got.Patch, tc.want)
		}
	}
	if got := w.When["finalizer-missing"]; got != `oldObject == null && !("x.io/held" in object.metadata.?finalizers.orValue([]))` {
		t.Errorf("it is called when %s", got)
	}
	if diff := cmp.Diff([]admissionregistrationv1.OperationType{"CREATE"}, w.operations()); diff != "" || len(configMaps.When) != 2 {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// TestOversizedReviewsAreRefused: the body is of the network, before it is known to be an
// API server's.
func TestOversizedReviewsAreRefused(t *testing.T) {
	t.Parallel()
	if code, _ := post(t, "/validate--v1-configmap", reviewOf+`{"data":{"a":"`+strings.Repeat("x", maxReview)+`"}}}}`); code != http.StatusBadRequest {
		t.Errorf("code %d", code)
	}
}
