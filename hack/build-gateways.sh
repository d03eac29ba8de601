#!/bin/sh
# Builds the gateways that Debian has too old or not at all, Traefik and Caddy, into bin/gateways. Does nothing when both are there in these
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

# 3.7 asks for modules that not every proxy of modules serves. Whether its forwardAuth behaves as that of 3.6 was not tried.
version=v3.6.12
if ! current traefik $version; then
	fetch github.com/traefik/traefik/v3 $version h1:6pe4s7aaDTQs+AsF7KP3sM/xnq7zOVvibRQe5tw9eFo= "$work/traefik"
	build traefik $version ./cmd/traefik "-X github.com/traefik/traefik/v3/pkg/version.Version=${version#v}"
fi
