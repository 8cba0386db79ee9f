# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# Who asks for versions of providers asks whom go itself would ask: what its default is, go knows.
LDFLAGS = -s -w -X github.com/capstan-dev/capstan/internal/cli/command.goProxy=$(shell env -u GOPROXY GOENV=off go env GOPROXY)
TOOL := go tool -modfile=go.tools.mod

.PHONY: build image release release-check quickstart run-sample-extension test fmt vet lint unit peer charts examples generate verify bench failover gobench differ kills moves hosts kernel chaos e2e clean

# What runs in a container image of its own has no libraries there.
build: ; go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/... && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/ ./cmd/capstan-network

# Programs, checksums, bills of materials and installers in dist/.
release: ; go run ./build/release -ldflags '$(LDFLAGS)'

# Images of the programs for amd64 and arm64, as layouts and archives in dist/images/; Docker is not needed.
IMAGES ?= ghcr.io/capstan-dev
image: ; rm -rf dist/images && mkdir -p dist/images && for p in capstan-manager capstan; do go run ./build/image -ldflags '$(LDFLAGS)' -name $(IMAGES)/$$p -out dist/images/$$p ./cmd/$$p; done

# Two releases are the same, byte for byte, also when nothing of the first is cached.
release-check: ; rm -rf dist.one dist.two && go run ./build/release -ldflags '$(LDFLAGS)' -out dist.one && cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && GOCACHE=$$cache go run ./build/release -ldflags '$(LDFLAGS)' -out dist.two && diff -r dist.one dist.two && rm -rf dist.one dist.two

quickstart: build ; build/quickstart.sh

run-sample-extension: build ; build/run-sample-extension.sh

# Everything CI runs. The order lets a fault that is cheap to find show first.
test: fmt build vet lint verify unit peer charts examples

fmt: ; @test -z "$$(gofmt -l $$(git ls-files '*.go') | tee /dev/stderr)" || { echo 'gofmt the files above'; exit 1; }

vet: ; go vet ./...

lint: ; build/lint.sh

# The tests of the whole take most of the ten minutes that go gives by itself.
unit: ; go test -timeout 20m ./...

# Round trips against upstream's API module, and our conversions against its, in a module of their own.
peer: ; cd peer && go vet ./... && go test ./...

# The chart and the base for kustomize, held against helm and kustomize themselves, which go.charts.mod pins.
charts: ; go build -modfile=go.charts.mod -o bin/ helm.sh/helm/v3/cmd/helm sigs.k8s.io/kustomize/kustomize/v5 && CAPSTAN_HELM=$(CURDIR)/bin/helm CAPSTAN_KUSTOMIZE=$(CURDIR)/bin/kustomize go test -count 1 -run 'Helm|Kustomize' ./internal/app/chart ./internal/e2e

# Modules for others to copy.
examples: ; cd examples/provider-example && $(MAKE) test

generate: ; go generate ./...

# Generated files are what their sources make of them.
verify: ; @sums() { git ls-files -co --exclude-standard api manifests extension | sort | xargs sha256sum; }; before=$$(sums); $(MAKE) -s generate; diff <(echo "$$before") <(sums) || { echo 'these were stale: commit what "make generate" made'; exit 1; }

bench: build ; go run ./bench -capstan bin/capstan -scenario bench/scenarios/one.yaml

# How long nobody acts when the plane that leads is killed.
failover: build ; go run ./bench/failover -capstan bin/capstan

gobench: ; go test -run '^$$' -bench . ./internal/... ./bench

# What a server-side apply would change, held against servers, for as long as you like.
differ: ; DIFFER_STEPS=$${STEPS:-20000} DIFFER_SEED=$${SEED:-$$RANDOM} go test -count 1 -timeout 0 -v -run Foretold ./internal/builder/differ

# 20 clusters move from plane to plane and back, not two.
moves: ; CAPSTAN_MOVES=20 go test -count 1 -timeout 0 -v -run TestClustersMoveBetweenThePlanesOfAHost ./internal/e2e

# The plane is killed after each write of a topology, not after one of them.
kills: ; CAPSTAN_KILLS=all go test -count 1 -timeout 0 -v -run TestATopologySurvivesKills ./internal/e2e

# Planes of several hosts, which are network namespaces, share a store: needs root.
hosts: ; CAPSTAN_HOSTS=1 go test -count 1 -timeout 0 -v -run 'TestPlanesO|TestAProviderOfOnePlane|TestABackupOfPlanes' ./internal/e2e

# Sandboxes on another kernel than that of this host, in an emulated machine:
# KERNEL=FILE MODULES=FOLDER, of a package of a distribution.
kernel: ; build/on-kernel.sh "$(KERNEL)" "$(MODULES)"

# A fleet goes through many hours of chaos, not through a few.
chaos: ; CAPSTAN_CHAOS_SEEDS=$${SEEDS:-100} CAPSTAN_CHAOS_SEED=$${SEED:-$$RANDOM} go test -count 1 -timeout 0 -v -run TestAFleetOutlivesChaos ./internal/sim

# Real nodes on this host: needs root, and the node images of both versions in
# E2E_IMAGES. Clusters are upgraded from the former.
E2E_VERSION ?= v1.36.3
E2E_FORMER_VERSION ?= v1.35.4
E2E_IMAGES ?= $(HOME)/.local/share/capstan-containers/images
e2e: ; CAPSTAN_E2E_IMAGES=$(E2E_IMAGES) CAPSTAN_E2E_VERSION=$(E2E_VERSION) CAPSTAN_E2E_FORMER_VERSION=$(E2E_FORMER_VERSION) go test -count 1 -timeout 0 -v ./internal/e2e/containers

clean: ; rm -rf bin dist dist.*
