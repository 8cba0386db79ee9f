#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints how many lines of internal/ the unit tests reach, by folder, and how many tests
# there are; of this checkout, or of another one:
#
#   build/coverage.sh [FOLDER]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/counters"
# Programs with counters warn when they end, so tests that compare what they print fail.
go test -vet=off -coverpkg=./internal/... ./... -args -test.gocoverdir="$dir/counters" >"$dir/log" 2>&1 || sed -n 's/^FAIL\t\([^\t]*\).*/fails with counters: \1/p' "$dir/log" >&2
go tool covdata textfmt -i="$dir/counters" -o="$dir/profile"
echo "tests: $(git grep -hE '^func (Test|Fuzz)[A-Z]' -- '*_test.go' | wc -l)"
# A line of the profile: FILE:LINE.COLUMN,LINE.COLUMN STATEMENTS COUNT.
awk -F'[:., ]+' '
	/^mode:/ { next }
	{
		match($0, /\.go:/)
		file = substr($0, 1, RSTART + 2)
		split(substr($0, RSTART + 4), at, /[., ]/)
		for (line = at[1]; line <= at[3]; line++) {
			key = file ":" line
			if (!(key in reached)) {
				reached[key] = 0
				of[key] = file
			}
			if (at[6] > 0) reached[key] = 1
		}
	}
	END {
		for (key in reached) {
			folder = of[key]
			sub(/^.*\/internal\//, "internal/", folder)
			split(folder, part, "/")
			folder = part[1] "/" part[2] (part[3] ~ /\.go$/ ? "" : "/" part[3])
			lines[folder]++
			hits[folder] += reached[key]
			lines["internal"]++
			hits["internal"] += reached[key]
		}
		for (folder in lines) printf "%-44s %6d of %6d lines %5.1f %%\n", folder, hits[folder], lines[folder], 100 * hits[folder] / lines[folder]
	}' "$dir/profile" | sort
