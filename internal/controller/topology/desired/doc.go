// SPDX-License-Identifier: Apache-2.0

// Package desired computes the desired objects of a Cluster with a topology.
//
// Each is the desired part of an object, and nothing else: it does not contain the
// fields of other controllers. The content of templates of the class is patched; names,
// labels, replicas, versions and references are set here and no patch changes them.
//
// Labels and annotations of the topology have precedence over those of the class, those
// over the template's own, and the labels by which objects are found over all. Metadata
// in class and topology is for a control plane or a group of workers and its machines,
// not for the templates that these are created from.
//
// Names are derived from the UID of the Cluster, so that an object that was created
// before a crash is found again. An object keeps its name. A template keeps its name
// while its spec is the same to the server; otherwise it is replaced by another one,
// whose name is derived from the spec.
//
// A failure of one part does not stop the others. An existing part that cannot be
// updated, or has to wait for an upgrade, keeps its templates and its version, so that
// nothing is rolled out; the rest of it follows the topology: replicas, metadata,
// timeouts, taints, readiness gates, health checks. A part that does not exist is not
// created in this case. Only if nothing can be computed for the whole, or an extension
// finds the whole invalid, must nothing be written.
//
// No input is changed.
//
// Names of new objects are generated from the naming templates of the class;
// CheckNameTemplate validates such a template.
package desired
