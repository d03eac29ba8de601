#!/bin/sh
# Brings what a folder's package-lock.json names, from npm. Does nothing when it is there already. Node with npm has to be there.
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
