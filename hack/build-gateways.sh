#!/bin/sh
# Builds Traefik and Caddy into bin/gateways, because Debian has no Traefik and too old a Caddy. Does nothing if both exist in these
# versions. Traefik takes ten minutes.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/bin/gateways
. "$root/hack/module.sh"

version=v2.11.9
if ! current caddy $version; then
	fetch github.com/caddyserver/caddy/v2 $version h1:bhZtcRKQOq0fuLvEgCdPYvUxXyGn9kzjG4lh2332DTE= "$work/caddy"
	build caddy $version ./cmd/caddy "-X github.com/caddyserver/caddy/v2.CustomVersion=$version"
fi

# 3.7 needs modules that not every module proxy serves. Its forwardAuth was not compared with 3.6.
version=v3.6.12
if ! current traefik $version; then
	fetch github.com/traefik/traefik/v3 $version h1:6pe4s7aaDTQs+AsF7KP3sM/xnq7zOVvibRQe5tw9eFo= "$work/traefik"
	build traefik $version ./cmd/traefik "-X github.com/traefik/traefik/v3/pkg/version.Version=${version#v}"
fi
