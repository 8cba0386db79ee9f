# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# Who asks for versions of providers asks whom go itself would ask: what its default is, go knows.
LDFLAGS = -s -w -X github.com/capstan-dev/capstan/internal/cli/command.goProxy=$(shell env -u GOPROXY GOENV=off go env GOPROXY)
TOOL := go tool -modfile=go.tools.mod

# Everything is compiled with the flags of a release, so that nothing is compiled twice.
# For commands by hand: export CGO_ENABLED=0 GOFLAGS=-trimpath.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

.PHONY: build capstan image release release-check quickstart run-sample-extension check test test-e2e test-one fmt lint unit test-programs peer peer-e2e peer-capv peer-plan coverage charts examples e2e-shared e2e-own e2e-alone e2e-upstream helm generate verify bench bench-version failover gobench differ plans kills moves fuzz tenant hosts kernel chaos test-containers clean

build: ; go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

# Programs, checksums, bills of materials and installers in dist/.
release: ; go run ./build/release -ldflags '$(LDFLAGS)'

# Images of the programs for amd64 and arm64, as layouts and archives in dist/images/; Docker is not needed.
IMAGES ?= ghcr.io/capstan-dev
image: ; rm -rf dist/images && mkdir -p dist/images && for p in capstan-manager capstan; do go run ./build/image -ldflags '$(LDFLAGS)' -name $(IMAGES)/$$p -out dist/images/$$p ./cmd/$$p; done

# Two releases are the same, byte for byte, also when nothing of the first is cached.
release-check: ; rm -rf dist.one dist.two && go run ./build/release -ldflags '$(LDFLAGS)' -out dist.one && cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && GOCACHE=$$cache go run ./build/release -ldflags '$(LDFLAGS)' -out dist.two && diff -r dist.one dist.two && rm -rf dist.one dist.two

capstan:
	@echo 'Building bin/capstan. The first time, this compiles Kubernetes and etcd: about 7 minutes on 2 cores. After that it takes seconds.'
	@go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/capstan

quickstart: capstan ; build/quickstart.sh

run-sample-extension: build ; build/run-sample-extension.sh

# Format, lint (which has the checks of go vet), generated files, unit tests, stories: no plane, no network, no root.
check: fmt lint verify unit

# What a newcomer runs: check, the other modules, and the main paths end to end. All that
# the end-to-end tests need is compiled before they start.
test: check peer charts examples e2e-shared

# All other end-to-end tests: planes that are killed, moved and shared, Pods, extensions,
# the book, a spec of upstream's.
test-e2e: e2e-own e2e-alone e2e-upstream

STEP := @build/step.sh

fmt: ; $(STEP) fmt bash -c 'test -z "$$(gofmt -l $$(git ls-files "*.go") | tee /dev/stderr)" || { echo "gofmt the files above"; exit 1; }'

bin/lint: build/lint/main.go go.tools.mod ; $(STEP) lint-program go build -modfile=go.tools.mod -o $@ $<

lint: bin/lint ; $(STEP) lint build/lint.sh

unit: ; $(STEP) unit go test -vet=off ./...

# The folders of the tests that use a plane or a program, by pass (internal/testenv).
callers = $(sort $(dir $(shell git grep -lE $(1) -- '*_test.go' ':!internal/e2e/containers')))
PLANES := internal/e2e/ $(filter-out internal/e2e/,$(call callers,'testenv\.(Start|Binary|Program).t'))
OWN := internal/e2e/ internal/testenv/ $(filter-out internal/e2e/ internal/testenv/,$(call callers,'testenv\.OwnPlanes'))
ALONE := $(call callers,'testenv\.Alone') internal/host/pods/

# The programs that tests run, and the test binaries of the packages above. Nothing is
# compiled while they run.
test-programs: ; $(STEP) programs build/test-programs.sh '$(LDFLAGS)' $(sort $(PLANES) $(OWN) $(ALONE))

e2e-shared: test-programs ; $(STEP) e2e-shared build/test-pass.sh shared $(PLANES:/=)

e2e-own: test-programs helm ; $(STEP) e2e-own build/test-pass.sh own $(OWN:/=)

e2e-alone: test-programs ; $(STEP) e2e-alone build/test-pass.sh alone $(ALONE:/=)

# The tests of one package that use a plane: make test-one PKG=internal/e2e RUN=TestName
PKG ?= internal/e2e
test-one: test-programs ; V=1 build/test-pass.sh all $(PKG)

# How many tests there are, and how many lines of internal/ the unit tests reach.
coverage: ; @build/coverage.sh

# Round trips against upstream's API module, and our conversions against its, in a module of their own.
peer: bin/lint ; $(STEP) peer bash -c 'cd peer && go vet -vettool=../bin/lint ./... && go test -vet=off ./... && cd e2e && go vet -vettool=../../bin/lint -tags e2e ./...'

# Upstream's own end-to-end specs against planes: SETUPS=local SPECS='quick-start || upgrade' for some of them.
peer-e2e: SETUPS ?= local inmemory
peer-e2e: capstan ; build/peer-e2e.sh '$(SETUPS)' '$(SPECS)'

# The genuine manager of the vSphere provider runs a cluster in a simulated vCenter.
peer-capv: test-programs ; $(STEP) peer-capv build/peer-capv.sh

# The shortest of upstream's specs.
e2e-upstream: test-programs ; $(STEP) e2e-upstream build/peer-e2e.sh local md-scale

# Plans and explanations in a management cluster with upstream's controllers; RUN selects tests.
peer-plan: capstan helm ; build/peer-plan.sh '$(RUN)'

# The chart and the base for kustomize, held against helm and kustomize themselves, which go.charts.mod pins.
charts: helm ; $(STEP) charts env CAPSTAN_HELM=$(CURDIR)/bin/helm CAPSTAN_KUSTOMIZE=$(CURDIR)/bin/kustomize go test -vet=off -count 1 -run 'Helm|Kustomize' ./internal/app/chart

helm: ; $(STEP) helm go build -modfile=go.charts.mod -ldflags '-s -w' -o bin/ helm.sh/helm/v3/cmd/helm sigs.k8s.io/kustomize/kustomize/v5

# Modules for others to copy.
examples: ; $(STEP) examples $(MAKE) -C examples/provider-example test

generate: ; go generate ./...

# Generated files are what their sources make of them.
verify: ; $(STEP) verify bash -c 'sums() { git ls-files -co --exclude-standard api manifests extension | sort | xargs sha256sum; }; before=$$(sums); $(MAKE) -s generate; diff <(echo "$$before") <(sums) || { echo "these were stale: commit what make generate made"; exit 1; }' 

bench: build ; go run ./bench -capstan bin/capstan -scenario bench/scenarios/one.yaml

# How many times the CPU time and memory of upstream's clusterctl a command takes that reads nothing.
bench-version: capstan ; go -C peer/e2e build -ldflags '-s -w' -o $(CURDIR)/bin/upstream/ sigs.k8s.io/cluster-api/cmd/clusterctl && CAPSTAN_PROGRAM=$(CURDIR)/bin/capstan CAPSTAN_REFERENCE=$(CURDIR)/bin/upstream/clusterctl go test -run '^$$' -bench Version -benchtime 50x ./bench

# How long nobody acts when the plane that leads is killed.
failover: build ; go run ./bench/failover -capstan bin/capstan

gobench: ; go test -run '^$$' -bench . ./internal/... ./bench

# What a server-side apply would change, held against servers, for as long as you like.
differ: test-programs ; DIFFER_STEPS=$${STEPS:-20000} DIFFER_SEED=$${SEED:-$$RANDOM} V=1 TIMEOUT=0 RUN=Foretold build/test-pass.sh shared internal/builder/differ

# 200 random changes to 20 clusters, each planned and then made, not eight.
plans: test-programs ; CAPSTAN_PLAN_CLUSTERS=$${CLUSTERS:-20} CAPSTAN_PLAN_CHANGES=$${CHANGES:-10} CAPSTAN_PLAN_SEED=$${SEED:-$$RANDOM} V=1 TIMEOUT=0 RUN=TestPlansComeTrue build/test-pass.sh shared internal/e2e

# 20 clusters move from plane to plane and back, not two.
moves: test-programs ; CAPSTAN_MOVES=20 V=1 TIMEOUT=0 RUN=TestClustersMoveBetweenThePlanesOfAHost build/test-pass.sh own internal/e2e

# The plane is killed after each write of a topology, not after one of them.
kills: test-programs ; CAPSTAN_KILLS=all V=1 TIMEOUT=0 RUN=TestATopologySurvivesKills build/test-pass.sh own internal/e2e

# Random objects of all kinds that a plane and a simulated cluster serve, for as long as
# you like: FUZZ=1h SEED=N. Before that, 300 broken objects of each built-in kind, held
# against an API server.
FUZZ ?= 10m
fuzz: test-programs ; CAPSTAN_FUZZ=$(FUZZ) CAPSTAN_FUZZ_SEED=$(SEED) CAPSTAN_BROKEN_OBJECTS=300 V=1 TIMEOUT=0 RUN='TestRandomObjectsOfAllKindsAreHandled|TestValidationIsThatOfAnAPIServer' build/test-pass.sh own internal/testenv internal/e2e

# A tenant attacks a plane while clusters are created in another namespace: TENANT=10m.
TENANT ?= 10m
tenant: test-programs ; CAPSTAN_TENANT=$(TENANT) V=1 TIMEOUT=0 RUN=TestTenantStopsNoOtherNamespace build/test-pass.sh own internal/e2e

# Planes of several hosts, which are network namespaces, share a store: needs root.
hosts: test-programs ; CAPSTAN_HOSTS=1 V=1 TIMEOUT=0 RUN='TestPlanesO|TestAProviderOfOnePlane|TestPlaneRestoresBackupOfSharedStore' build/test-pass.sh own internal/e2e

# Sandboxes on another kernel than that of this host, in an emulated machine:
# KERNEL=FILE MODULES=FOLDER, of a package of a distribution.
kernel: ; build/on-kernel.sh "$(KERNEL)" "$(MODULES)"

# Random tests with many seeds instead of one, and process exits after every write
# instead of a selection: see internal/sim/complete_test.go.
chaos: ; CAPSTAN_CHAOS_SEEDS=$${SEEDS:-100} CAPSTAN_CHAOS_SEED=$${SEED:-$$RANDOM} go test -count 1 -timeout 0 -v -run 'TestAFleetOutlivesChaos|TestAMoveBetweenPlanes|RollsBackAfterCrash' ./internal/sim

# Real nodes on this host: needs root, and the node images of both versions in
# E2E_IMAGES. Clusters are upgraded from the former.
E2E_VERSION ?= v1.36.3
E2E_FORMER_VERSION ?= v1.35.4
E2E_IMAGES ?= $(HOME)/.local/share/capstan-containers/images
test-containers: build ; CAPSTAN_E2E_IMAGES=$(E2E_IMAGES) CAPSTAN_E2E_VERSION=$(E2E_VERSION) CAPSTAN_E2E_FORMER_VERSION=$(E2E_FORMER_VERSION) CAPSTAN_TEST_PROGRAMS=$(CURDIR)/bin go test -count 1 -timeout 0 -v ./internal/e2e/containers

clean: ; rm -rf bin dist dist.*
