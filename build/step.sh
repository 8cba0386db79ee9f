#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs one step of a make target and appends what it took to $STEPS, where .ci/run reads
# it:
#
#   build/step.sh NAME COMMAND [ARGUMENT...]
set -euo pipefail
name=$1
shift
STEPS=${STEPS:-bin/steps}
mkdir -p "$(dirname "$STEPS")"
took=$(mktemp)
trap 'rm -f "$took"' EXIT
echo "== $name: $*" | cut -c1-150
TIMEFORMAT='%R %U %S'
status=0
{ time "$@" 2>&3; } 3>&2 2>"$took" || status=$?
awk -v name="$name" -v status="$status" '{ printf "%-22s %6.1f min %7.1f CPU min  %s\n", name, $1 / 60, ($2 + $3) / 60, status ? "failed" : "passed" }' "$took" | tee -a "$STEPS"
exit "$status"
