#!/bin/sh
# Builds the previous release into bin/before from the repository's history. hack/release-before names release and commit.
# Exit status 3: the history is missing, as in a shallow clone.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out="$root/bin/before"
read -r release commit <"$root/hack/release-before"

if [ -x "$out/cardea" ] && [ "$(cat "$out/.commit" 2>/dev/null)" = "$commit" ]; then
	exit 0
fi
if ! git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null; then
	echo "The history of this clone does not reach $release ($commit), so nothing is upgraded from it: git fetch --unshallow" >&2
	exit 3
fi
echo "Building $release into bin/before; this takes minutes, once."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git -C "$root" archive "$commit" | tar -x -C "$work"
rm -rf "$out" # an interrupted build must not pass for a finished one
# The flags of `make build`, so that both share packages.
(cd "$work" && CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly GOGC="${GOGC:-off}" GOMEMLIMIT="${GOMEMLIMIT:-1GiB}" \
	go build -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags "-s -w -X main.version=$release" -o "$out/cardea" ./cmd/cardea)
echo "$commit" >"$out/.commit"
