// SPDX-License-Identifier: Apache-2.0

// Package mgmtplane runs a management plane in this process: etcd, the full
// kube-apiserver, and those of kube-controller-manager's controllers without
// which an API server without machines is not whole: namespaces, garbage
// collection, aggregated cluster roles, service accounts and their tokens.
//
//	p, err := mgmtplane.Start(ctx, mgmtplane.Options{Dir: dir})
//	...
//	defer p.Stop(ctx)
//	client.New(p.Config(), ...)
//
// All its data is in one data directory, which it locks. The process may be killed
// at any moment: the next Start on the same directory continues from there.
//
// It is the only package that may import k8s.io/kubernetes and the etcd server, and
// no test links it: internal/testenv runs the program instead.
package mgmtplane
