#!/bin/sh
# Installs the published OAuth and OpenID Connect clients of the stories: kubelogin and oauth2-proxy into bin/oauth-clients, and the npm
# clients into test/oauthclients. Needs Node with npm. Does nothing if all exist in these versions.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/bin/oauth-clients
. "$root/hack/module.sh"

version=v1.28.1
if ! current kubelogin $version; then
	fetch github.com/int128/kubelogin $version h1:Bo8bByoBgjr9gEOyvXKhbQ87Ovpv8XhAuAsaOvUJxzw= "$work/kubelogin"
	build kubelogin $version . "-X main.version=$version"
fi
version=v7.8.1
if ! current oauth2-proxy $version; then
	fetch github.com/oauth2-proxy/oauth2-proxy/v7 $version h1:1CMjAm6m3I3uFuyrCI8PIQtPkYKnoNsgMHTcBXXSSL8= "$work/oauth2-proxy"
	build oauth2-proxy $version . "-X github.com/oauth2-proxy/oauth2-proxy/v7/pkg/version.VERSION=$version"
fi

exec "$root/hack/npm-ci.sh" "$root/test/oauthclients"
