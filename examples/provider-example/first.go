// SPDX-License-Identifier: Apache-2.0

//go:build first

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/provider-example/api/v1alpha1"
)

// The first release has one version. Your own provider has this file in its
// history; here both releases are built from one tree, by the tag "first".
type (
	ExampleCluster = v1alpha1.ExampleCluster
	ExampleMachine = v1alpha1.ExampleMachine
)

func addToScheme(s *runtime.Scheme) error { return v1alpha1.AddToScheme(s) }

func setupConversion(ctrl.Manager) error { return nil }
