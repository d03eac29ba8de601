#!/bin/sh
# Builds the gateways that Debian has too old or not at all, Traefik and Caddy, into bin/gateways, each in a copy of its own module: so with
# the dependencies that its authors pin. Does nothing when both are there in these versions.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/bin/gateways
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOWORK=off GOFLAGS='-mod=readonly -buildvcs=false'

# fetch MODULE VERSION SUM FOLDER copies a module into a folder, if its content is the one that SUM names.
fetch() {
	(cd "$work" && go mod download -json "$1@$2") >"$work/module.json"
	grep -qF "\"Sum\": \"$3\"" "$work/module.json" || {
		echo "$1@$2 is not the module that was pinned here" >&2
		exit 1
	}
	cp -R "$(sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p' "$work/module.json")" "$4"
	chmod -R u+w "$4"
}

# current NAME VERSION tells whether a program is there in a version.
current() {
	[ -x "$out/$1" ] && [ "$(cat "$out/.$1" 2>/dev/null)" = "$2" ]
}

# build NAME VERSION FLAGS builds cmd/NAME of the module in the folder NAME.
build() {
	echo "Building $1 $2 into bin/gateways; this takes minutes, Traefik ten of them, once."
	mkdir -p "$out"
	rm -f "$out/.$1" # an interrupted build must not pass for a finished one
	(cd "$work/$1" && go build -p 2 -trimpath -ldflags "-s -w $3" -o "$out/$1" "./cmd/$1")
	echo "$2" >"$out/.$1"
}

version=v2.11.9
if ! current caddy $version; then
	fetch github.com/caddyserver/caddy/v2 $version h1:bhZtcRKQOq0fuLvEgCdPYvUxXyGn9kzjG4lh2332DTE= "$work/caddy"
	build caddy $version "-X github.com/caddyserver/caddy/v2.CustomVersion=$version"
fi

# 3.7 asks for modules that not every proxy of modules serves. Whether its forwardAuth behaves as that of 3.6 was not tried.
version=v3.6.12
if ! current traefik $version; then
	fetch github.com/traefik/traefik/v3 $version h1:6pe4s7aaDTQs+AsF7KP3sM/xnq7zOVvibRQe5tw9eFo= "$work/traefik"
	build traefik $version "-X github.com/traefik/traefik/v3/pkg/version.Version=${version#v}"
fi
