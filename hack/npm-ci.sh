#!/bin/sh
# Installs the packages of a folder's package-lock.json from npm. Does nothing if they exist already. Needs Node with npm.
set -eu
cd "$1"
command -v npm >/dev/null || {
	echo "Please install nodejs (20 or newer) and npm" >&2
	exit 1
}
cmp -s package-lock.json node_modules/.installed || {
	npm ci --no-audit --no-fund --loglevel=error
	cp package-lock.json node_modules/.installed
}
