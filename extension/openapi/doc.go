// SPDX-License-Identifier: Apache-2.0

// Package openapi describes runtime hooks as an OpenAPI 3.0 document: one POST
// for each version of each hook in a catalog, at the path where an extension
// answers it.
//
// The schemas of the messages are made from the Go types in api/hooks with
// their comments and markers, when code is generated. openapi-gen, which
// others use for that, knows neither the markers for bounds and enums that our
// types have nor that a field may be required and left out if empty; so it is
// controller-tools, which makes our CRDs, that reads them.
package openapi

//go:generate go run -modfile=../../go.tools.mod generate.go
//go:generate go run ./internal/document -output openapi.json
