#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Generates, from the types in api/, their deep copies and the CRDs of all
# groups in manifests/crd.
set -eu
cd "$(dirname "$0")/.."
go tool -modfile=go.tools.mod controller-gen object paths='./api/...'
rm -f manifests/crd/*.yaml
go tool -modfile=go.tools.mod controller-gen crd:crdVersions=v1 \
	paths='./api/core/...;./api/bootstrap/...;./api/controlplane/...;./api/infrastructure/...;./api/addons/...;./api/ipam/...;./api/runtime/...;./api/clusterctl/...;./api/plan/...' \
	output:crd:dir=manifests/crd
# Those of cert-manager's group are for planes alone.
rm -f manifests/certificates/*.yaml
go tool -modfile=go.tools.mod controller-gen crd:crdVersions=v1 paths='./api/certmanager/...' output:crd:dir=manifests/certificates
# Metadata is a file of a repository, never an object: its schema is only
# compared with the facts.
mv manifests/crd/clusterctl.cluster.x-k8s.io_metadata.yaml manifests/testdata/
