// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is the form of objects that a client requests.
type form int

const (
	whole    form = iota
	metaOnly      // PartialObjectMetadata, or a list of it
	rows          // Table
)

// acceptable picks the first form that the server can return from an Accept header.
// Everything is JSON; clients that prefer another form accept JSON too.
func acceptable(header string) (form, error) {
	if header == "" {
		return whole, nil
	}
	for media := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(strings.TrimSpace(media))
		if err != nil || (kind != "application/json" && kind != "*/*" && kind != "application/*") {
			continue
		}
		if stream := params["stream"]; stream != "" && stream != "watch" {
			continue
		}
		switch params["as"] {
		case "":
			return whole, nil
		case "Table":
			if params["v"] == "v1" && params["g"] == "meta.k8s.io" {
				return rows, nil
			}
		case "PartialObjectMetadata", "PartialObjectMetadataList":
			if params["v"] == "v1" && params["g"] == "meta.k8s.io" {
				return metaOnly, nil
			}
		}
	}
	return whole, unlike(406, metav1.StatusReasonNotAcceptable, "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch", &metav1.StatusDetails{})
}
