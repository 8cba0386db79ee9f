#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Keeps a test binary instead of running it: "go test -exec" calls this with the binary,
# in the folder of its package. One command thereby builds the test binaries of many
# packages, which "go test -c" does only if no two have the same name.
set -euo pipefail
package=${PWD#"$CAPSTAN_ROOT"/}
cp --remove-destination "$1" "$CAPSTAN_ROOT/bin/test/binaries/${package//\//_}.test"
