// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

var createdKind = hooksv1.GroupVersion().WithKind("BeforeClusterCreateResponse")

func created(status hooksv1.ResponseStatus, message string, retryAfter int32) *hooksv1.BeforeClusterCreateResponse {
	out := &hooksv1.BeforeClusterCreateResponse{}
	out.SetGroupVersionKind(createdKind)
	out.Status, out.Message, out.RetryAfterSeconds = status, message, retryAfter
	return out
}

func TestDecode(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", MaxMessageLength)
	tests := map[string]struct {
		body string
		want *hooksv1.BeforeClusterCreateResponse
		err  string
	}{
		"kind and version may be left out": {body: `{"status":"Success","retryAfterSeconds":5}`, want: created("Success", "", 5)},
		"kind and version may be there":    {body: `{"apiVersion":"` + v1alpha1 + `","kind":"BeforeClusterCreateResponse","status":"Failure","message":"no"}`, want: created("Failure", "no", 0)},
		"unknown fields are passed over":   {body: `{"status":"Success","colour":{"of":["the","sky"]}}`, want: created("Success", "", 0)},
		"a day is the longest wait":        {body: `{"status":"Success","retryAfterSeconds":86400}`, want: created("Success", "", 86400)},
		"a long message is cut":            {body: `{"status":"Success","message":"` + long + `"}`, want: created("Success", Shorten(long, MaxMessageLength), 0)},
		"nothing":                          {body: ``, err: "decode answer: it is empty"},
		"blanks":                           {body: ` `, err: "decode answer: unexpected end of JSON input"},
		"a web page":                       {body: `<html>`, err: "decode answer: invalid character '<' looking for beginning of value"},
		"something after it":               {body: `{"status":"Success"} {}`, err: "decode answer: invalid character '{' after top-level value"},
		"an answer cut short":              {body: `{"status":"Succ`, err: "decode answer: unexpected end of JSON input"},
		"null":                             {body: `null`, err: "the answer has no status: want Success or Failure"},
		"a list":                           {body: `[]`, err: "decode answer: json: cannot unmarshal array into Go value of type v1alpha1.BeforeClusterCreateResponse"},
		"no status":                        {body: `{}`, err: "the answer has no status: want Success or Failure"},
		"another status":                   {body: `{"status":"OK"}`, err: `the answer has status "OK": want Success or Failure`},
		"another kind":                     {body: `{"kind":"GeneratePatchesResponse","status":"Success"}`, err: `the answer is a "GeneratePatchesResponse" of "": want a BeforeClusterCreateResponse of ` + v1alpha1},
		"another version":                  {body: `{"apiVersion":"x/v1","status":"Success"}`, err: `the answer is a "" of "x/v1": want a BeforeClusterCreateResponse of ` + v1alpha1},
		"a wait of less than nothing":      {body: `{"status":"Success","retryAfterSeconds":-1}`, err: "the answer has retryAfterSeconds -1: want 0 or more"},
		"a wait of more than a day":        {body: `{"status":"Success","retryAfterSeconds":86401}`, want: created("Success", "", 86400)},
		"a wait beyond any number":         {body: `{"status":"Success","retryAfterSeconds":99999999999}`, err: "decode answer: json: cannot unmarshal number 99999999999 into Go struct field BeforeClusterCreateResponse.CommonRetryResponse.retryAfterSeconds of type int32"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := &hooksv1.BeforeClusterCreateResponse{}
			err := Decode([]byte(tc.body), createdKind, got)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAggregate(t *testing.T) {
	t.Parallel()
	type answers []*hooksv1.BeforeClusterCreateResponse
	tests := map[string]struct {
		answers answers
		want    *hooksv1.BeforeClusterCreateResponse
	}{
		"none is an empty Success":                   {nil, created("Success", "", 0)},
		"one is itself":                              {answers{created("Success", "wait", 7)}, created("Success", "wait", 7)},
		"messages keep their order":                  {answers{created("Success", "b", 0), created("Success", "a", 0)}, created("Success", "b, a", 0)},
		"empty messages are left out":                {answers{created("Success", "", 0), created("Success", "x", 0), created("Success", "", 0)}, created("Success", "x", 0)},
		"the lowest wait that is not zero":           {answers{created("Success", "", 30), created("Success", "", 0), created("Success", "", 5), created("Success", "", 9)}, created("Success", "", 5)},
		"no waiting caller":                          {answers{created("Success", "", 0), created("Success", "", 0)}, created("Success", "", 0)},
		"messages are not longer than a condition's": {answers{created("Success", strings.Repeat("x", 40_000), 0)}, created("Success", strings.Repeat("x", 16<<10-3)+"…", 0)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var list []Answer
			for _, a := range tc.answers {
				list = append(list, Answer{Handler: "h", Response: a})
			}
			got := created("Failure", "from before", 99)
			if len(list) > 0 {
				got = tc.answers[0] // as callers do: one of the answers receives the result
			}
			Aggregate(got, list)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAggregateOfAnswersThatCannotBlock(t *testing.T) {
	t.Parallel()
	got := &hooksv1.AfterControlPlaneInitializedResponse{}
	a, b := &hooksv1.AfterControlPlaneInitializedResponse{}, &hooksv1.AfterControlPlaneInitializedResponse{}
	a.Message, b.Message = "one", "two"
	Aggregate(got, []Answer{{"a", a}, {"b", b}})
	if got.Status != "Success" || got.Message != "one, two" {
		t.Errorf("got %+v, want Success with one, two", got.CommonResponse)
	}
}

func TestAggregatable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		response any
		want     bool
	}{
		"status, message and wait":   {hooksv1.BeforeClusterCreateResponse{}, true},
		"status and message":         {hooksv1.AfterControlPlaneInitializedResponse{}, true},
		"patches cannot be made one": {hooksv1.GeneratePatchesResponse{}, false},
		"they cannot when embedded": {struct {
			hooksv1.GeneratePatchesResponse
		}{}, false},
		"a wait can when embedded": {struct {
			hooksv1.BeforeClusterCreateResponse
		}{}, true},
	} {
		if got := Aggregatable(reflect.TypeOf(tc.response)); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestSuccess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer *hooksv1.BeforeClusterCreateResponse
		want   string
	}{
		"Success":                   {created("Success", "fine", 0), ""},
		"Failure with a message":    {created("Failure", "quota", 0), "the extension answered Failure: quota"},
		"Failure without a message": {created("Failure", "", 0), "the extension answered Failure, without a message"},
		"neither":                   {created("", "", 0), `the extension answered with status "": want Success or Failure`},
	} {
		got := ""
		if err := Success(tc.answer); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestShortenCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for limit := 3; limit < 12; limit++ {
		got := Shorten("äöü𝄞x\xff!", limit)
		if len(got) > limit+2 || !utf8.ValidString(got) { // an invalid byte becomes three
			t.Errorf("limit %d: got %q of %d bytes", limit, got, len(got))
		}
	}
	if got := Shorten("short", 5); got != "short" {
		t.Errorf("got %q, want it whole", got)
	}
}
