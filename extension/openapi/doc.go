// SPDX-License-Identifier: Apache-2.0

// Package openapi describes runtime hooks as an OpenAPI 3.0 document: one POST
// for each version of each hook in a catalog, at the path where an extension
// answers it.
//
// The code generator builds the schemas of the messages from the Go types in
// api/hooks with their comments and markers. openapi-gen, the usual tool,
// supports neither the markers for bounds and enums that our types have nor a
// field that is required and left out if empty; so controller-tools, which
// generates our CRDs, reads them.
package openapi

//go:generate go run -modfile=../../go.tools.mod generate.go
//go:generate go run ./internal/document -output openapi.json
