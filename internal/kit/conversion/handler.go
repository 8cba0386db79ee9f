// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"encoding/json"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Path is where a Converter is served.
const Path = "/convert"

// maxReview is many times what an API server sends: it converts what it reads one
// at a time, and etcd takes no object of more than a megabyte and a half.
const maxReview = 64 << 20

// review is ConversionReview v1 whose objects stay bytes: the generated type would
// decode each first.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request  `json:"request,omitempty"`
	Response        *response `json:"response,omitempty"`
}

type request struct {
	UID               types.UID         `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type response struct {
	UID              types.UID         `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           metav1.Status     `json:"result"`
}

// ServeHTTP answers one ConversionReview: with all objects in their order, or with
// why one of them cannot be converted.
func (c *Converter) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	r := &review{}
	if err := json.NewDecoder(http.MaxBytesReader(out, in.Body, maxReview)).Decode(r); err != nil {
		http.Error(out, "decode the ConversionReview: "+err.Error(), http.StatusBadRequest)
		return
	}
	if r.Request == nil || r.GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview") {
		http.Error(out, "the body is not a ConversionReview of apiextensions.k8s.io/v1 with a request", http.StatusBadRequest)
		return
	}
	r.Response = &response{UID: r.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	var err error
	if r.Response.ConvertedObjects, err = c.all(r.Request); err != nil {
		r.Response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	r.Request = nil
	out.Header().Set("Content-Type", "application/json")
	// If this fails, there is no client left: the API server closed the connection.
	_ = json.NewEncoder(out).Encode(r)
}

func (c *Converter) all(r *request) ([]json.RawMessage, error) {
	done := make([]json.RawMessage, len(r.Objects))
	for i, raw := range r.Objects {
		var err error
		if done[i], err = c.JSON(raw, r.DesiredAPIVersion); err != nil {
			return []json.RawMessage{}, err
		}
	}
	return done, nil
}
