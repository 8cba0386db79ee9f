#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the genuine manager of the vSphere provider (peer/capv) with a simulated vCenter
# against a plane. Needs what "make test-programs" built.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/bin/test/capv
mkdir -p "$out"
cd peer/capv
go vet ./...
go build -ldflags '-s -w' -o "$out/manager" sigs.k8s.io/cluster-api-provider-vsphere
go build -ldflags '-s -w' -o "$out/" ./vcsim
export CAPSTAN_CAPV_MANAGER=$out/manager CAPSTAN_CAPV_VCSIM=$out/vcsim
CAPSTAN_CAPV_CRDS=$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api-provider-vsphere)/config/default/crd/bases
export CAPSTAN_CAPV_CRDS
cd ../..
V=1 RUN='TestVSphere' build/test-pass.sh own internal/e2e
