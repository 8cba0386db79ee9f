#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The linters, pinned in go.tools.mod; docs/adr says why these.
set -euo pipefail
cd "$(dirname "$0")/.."

go tool -modfile=go.tools.mod revive -config build/revive.toml -set_exit_status ./...
go vet -vettool=bin/lint ./...
go test -count 1 -v -run TestHouse . | grep -v "^=== "
