// SPDX-License-Identifier: Apache-2.0

// Package api runs the code generators for the types.
package api

//go:generate go tool -modfile=../../../go.tools.mod controller-gen object paths=./... crd output:crd:dir=../config/crd
