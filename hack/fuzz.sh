#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other: hack/fuzz.sh TIME
set -euo pipefail
grep -rl --include='*_test.go' '^func Fuzz' apiserver cmd controllers internal store | sort | while read -r file; do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		echo "$(dirname "$file") $target"
		go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$1" </dev/null >bin/fuzz.log 2>&1 || { cat bin/fuzz.log; exit 1; }
	done
done
