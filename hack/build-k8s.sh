#!/bin/sh
# Puts etcd, kube-apiserver, kube-controller-manager and kubectl into bin/k8s, at the versions of hack/k8s/go.mod.
# Does nothing if they exist and go.mod is unchanged, or if $KUBEBUILDER_ASSETS has all four.
# With CARDEA_K8S_MIRROR (a base address; CARDEA_ETCD_MIRROR for etcd, if that is elsewhere) it fetches each binary whose
# SHA-256 sum is in hack/k8s/sums.txt, and compiles the others. Without a mirror, it compiles all.
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
etcd_version=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
mkdir -p "$out"
rm -f "$stamp" # an interrupted build must not pass for a finished one
rm -f "$out/etcd" "$out/kube-apiserver" "$out/kube-controller-manager" "$out/kubectl" "$out"/.fetching-*

if [ -n "${CARDEA_K8S_MIRROR:-}" ]; then
	(cd "$root" && go run ./hack/fetch-k8s -mirror "$CARDEA_K8S_MIRROR" -etcd-mirror "${CARDEA_ETCD_MIRROR:-}" \
		-sums hack/k8s/sums.txt -out "$out" -kubernetes "$version" -etcd "$etcd_version") || true
fi

kubernetes=
for binary in kube-apiserver kube-controller-manager kubectl; do
	[ -x "$out/$binary" ] || kubernetes="$kubernetes k8s.io/kubernetes/cmd/$binary"
done
if ! complete "$out"; then
	echo "Compiling Kubernetes $version and etcd $etcd_version into bin/k8s: about 7 minutes on two cores, once, and less for a part."
fi
export CGO_ENABLED=0
# The version that kubectl and the API server report; the default is v0.0.0-master.
ldflags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
if [ -n "$kubernetes" ]; then
	# shellcheck disable=SC2086 # a list of packages
	go build -p 2 -trimpath -ldflags "$ldflags" -o "$out/" $kubernetes
fi
if [ ! -x "$out/etcd" ]; then
	go build -p 2 -trimpath -ldflags "-s -w" -o "$out/etcd" go.etcd.io/etcd/server/v3
fi
echo "$wanted" >"$stamp"
