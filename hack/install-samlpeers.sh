#!/bin/sh
# Installs SimpleSAMLphp, a published identity provider of SAML, for make test-connections. On Debian and Ubuntu as root it uses apt;
# elsewhere it prints what to install.
set -eu

if command -v php >/dev/null 2>&1 && [ -d /usr/share/simplesamlphp/www ]; then
	exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
	echo "Please install: php-cli php-xml php-mbstring simplesamlphp" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install --yes -qq --no-install-recommends php-cli php-xml php-mbstring simplesamlphp >/dev/null
