// SPDX-License-Identifier: Apache-2.0

//go:build !first

package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"example.com/provider-example/api/v1alpha1"
	"example.com/provider-example/api/v1beta1"
)

// The second release works with the version that it stores, and converts the other.
type (
	ExampleCluster = v1beta1.ExampleCluster
	ExampleMachine = v1beta1.ExampleMachine
)

func addToScheme(s *runtime.Scheme) error {
	if err := v1alpha1.AddToScheme(s); err != nil {
		return err
	}
	return v1beta1.AddToScheme(s)
}

// setupConversion serves /convert: one webhook does for all kinds.
func setupConversion(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &ExampleCluster{}).Complete()
}
