// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// respond sends a document.
func respond(w http.ResponseWriter, code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	respondRaw(w, code, body)
	return nil
}

func respondRaw(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that left needs no answer
}

// unlike is a Status error with exactly this message.
func unlike(code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: details}}
}

// errNoPage is the answer to a path below which there is nothing.
var errNoPage = errors.New("404 page not found")

// respondError sends an error as the Status it is, or as an internal error.
func respondError(w http.ResponseWriter, err error) {
	if errors.Is(err, errNoPage) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	body, err := json.Marshal(status)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	respondRaw(w, int(status.Code), body)
}

func statusOf(err error) metav1.Status {
	status := metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	if known, ok := err.(apierrors.APIStatus); ok { // a wrapped one is not for the client as it is
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return status
}

func warn(w http.ResponseWriter, warnings []string) {
	for _, text := range warnings {
		w.Header().Add("Warning", "299 - "+strconv.Quote(text))
	}
}

// respondAs sends a document with a separate media type.
func respondAs(w http.ResponseWriter, media string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // a client that left needs no answer
	return nil
}

// recorder records the code of an answer.
type recorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap lets an http.ResponseController reach what it wraps.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
