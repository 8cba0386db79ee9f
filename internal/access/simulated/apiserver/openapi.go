// SPDX-License-Identifier: Apache-2.0

package apiserver

import "net/http"

func openAPI(http.ResponseWriter, *request, []string) error { return notServed() }
