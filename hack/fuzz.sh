#!/bin/sh
# Runs every fuzz target of packages, one after the other, each with the given number of inputs (go test -fuzztime):
# fuzz.sh 50000x ./internal/...
set -eu

inputs=${1:?how many inputs each target gets, such as 50000x}
shift
cd "$(dirname "$0")/.."

# One "package target" for each line, because go test fuzzes one target at a time.
targets=$(go list -f '{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{.}} {{$.ImportPath}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$dir}}/{{.}} {{$.ImportPath}}{{"\n"}}{{end}}' "$@" |
	while read -r file package; do
		[ -n "$file" ] || continue
		sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(f \*testing.F).*/\1/p' "$file" | while read -r target; do echo "$package $target"; done
	done)
[ -n "$targets" ] || { echo "no fuzz target was found in $*" >&2; exit 1; }

echo "$targets" | while read -r package target; do
	# Without go vet, which `make lint` runs.
	go test -vet=off "$package" -v -run "^$target\$" -fuzz "^$target\$" -fuzztime "$inputs" -fuzzminimizetime 1s
done
