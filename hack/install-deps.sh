#!/bin/sh
# Installs the missing dependencies of the tests other than Go: PostgreSQL's server programs, PgBouncer, Redis, the gateways nginx,
# HAProxy and Caddy, Prometheus, Chromium with a font, oathtool, curl, git, make, a C compiler (for the race detector and Vale) and CA
# certificates.
# On Debian and Ubuntu as root it uses apt; elsewhere it prints what to install.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }

# On Debian, the server's programs are not in PATH.
has_postgres() {
	has initdb && has postgres && return 0
	for initdb in /usr/lib/postgresql/*/bin/initdb; do
		[ -x "$initdb" ] && return 0
	done
	return 1
}

missing=
has_postgres || missing="$missing postgresql"
for tool in curl git make oathtool; do
	has "$tool" || missing="$missing $tool"
done
has redis-server || missing="$missing redis-server"
for gateway in nginx haproxy caddy; do
	has "$gateway" || [ -x "/usr/sbin/$gateway" ] || missing="$missing $gateway"
done
has pgbouncer || [ -x /usr/sbin/pgbouncer ] || missing="$missing pgbouncer"
has promtool || missing="$missing prometheus"
has chromium-headless-shell || { has chromium && ! has apt-get; } || missing="$missing chromium-headless-shell fonts-dejavu-core"
has gcc || has clang || missing="$missing gcc libc6-dev"
# /etc/ssl/cert.pem is the file on macOS and others.
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/ssl/cert.pem ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
	missing="$missing ca-certificates"
[ -n "$missing" ] || exit 0

if ! has apt-get || [ "$(id -u)" -ne 0 ]; then
	echo "Please install:$missing" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
	"$@" >"$log" 2>&1 || {
		cat "$log" >&2
		exit 1
	}
}
export DEBIAN_FRONTEND=noninteractive
quietly apt-get update
# Ubuntu has only the Chromium with windows.
apt-cache show chromium-headless-shell >/dev/null 2>&1 || missing=$(echo "$missing" | sed 's/chromium-headless-shell/chromium/')
# shellcheck disable=SC2086 # a list of words
quietly apt-get install --yes --no-install-recommends $missing
echo "Installed:$missing"
