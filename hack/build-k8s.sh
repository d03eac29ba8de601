#!/bin/sh
# Builds etcd, kube-apiserver, kube-controller-manager and kubectl into bin/k8s, at the versions of hack/k8s/go.mod.
# Does nothing when they are there and go.mod is unchanged, or when $KUBEBUILDER_ASSETS holds all four.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/bin/k8s
stamp=$out/.built-from

complete() {
	for binary in etcd kube-apiserver kube-controller-manager kubectl; do
		[ -x "$1/$binary" ] || return 1
	done
}

if [ -n "${KUBEBUILDER_ASSETS:-}" ] && complete "$KUBEBUILDER_ASSETS"; then
	exit 0
fi

cd "$root/hack/k8s"
wanted=$(cat go.mod go.sum | cksum)
if complete "$out" && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
	exit 0
fi

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
echo "Building Kubernetes $version into bin/k8s; this takes some minutes, once."
mkdir -p "$out"
rm -f "$stamp" # an interrupted build must not pass for a finished one
export CGO_ENABLED=0
# kubectl and the API server report this version; without it they say v0.0.0-master.
ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
go build -p 2 -trimpath -ldflags "$ldflags" -o "$out/" \
	k8s.io/kubernetes/cmd/kube-apiserver \
	k8s.io/kubernetes/cmd/kube-controller-manager \
	k8s.io/kubernetes/cmd/kubectl
go build -p 2 -trimpath -ldflags "-s -w" -o "$out/etcd" go.etcd.io/etcd/server/v3
echo "$wanted" >"$stamp"
