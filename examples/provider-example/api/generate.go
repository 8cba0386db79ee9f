// SPDX-License-Identifier: Apache-2.0

// Package api generates what is made from the types.
package api

//go:generate go tool -modfile=../../../go.tools.mod controller-gen object paths=./... crd output:crd:dir=../config/crd
