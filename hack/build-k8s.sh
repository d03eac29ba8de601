#!/bin/sh
# Puts etcd, kube-apiserver, kube-controller-manager and kubectl into bin/k8s, at the versions of hack/k8s/go.mod.
# Does nothing if they exist and go.mod is unchanged, or if $KUBEBUILDER_ASSETS has all four.
# With CARDEA_K8S_MIRROR (a base address; CARDEA_ETCD_MIRROR for etcd, if that is elsewhere) it fetches each binary whose
# SHA-256 sum is in hack/k8s/sums.txt, and compiles the others. Without a mirror, it compiles all.
# With the argument --check, it changes nothing, and exits with status 1 if binaries are missing.
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
if [ "${1:-}" = --check ]; then
	exit 1
fi

# hack/compile and hack/fetch-k8s print the time since the first of these programs started.
export CARDEA_STARTED="${CARDEA_STARTED:-$(date +%s)}"
export CGO_ENABLED=0
# The compiler collects no garbage below 1 GiB: a quarter less processor time, with the same output.
export GOGC="${GOGC:-off}" GOMEMLIMIT="${GOMEMLIMIT:-1GiB}"
# Without debug information, which -s and -w would remove in the end. The flags are those of `make build`, so that both share packages.
flags="-trimpath -gcflags=all=-dwarf=false"

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd_version=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
mkdir -p "$out"
rm -f "$stamp" # an interrupted build must not pass for a finished one
rm -f "$out/etcd" "$out/kube-apiserver" "$out/kube-controller-manager" "$out/kubectl" "$out/server" "$out"/.fetching-*

if [ -n "${CARDEA_K8S_MIRROR:-}" ]; then
	# shellcheck disable=SC2086 # a list of flags
	(cd "$root" && go run $flags ./hack/fetch-k8s -mirror "$CARDEA_K8S_MIRROR" -etcd-mirror "${CARDEA_ETCD_MIRROR:-}" \
		-sums hack/k8s/sums.txt -out "$out" -kubernetes "$version" -etcd "$etcd_version") || true
fi

# One go build compiles all, so that it links a program while it compiles others. It names etcd after its folder, server.
packages=
set --
if [ ! -x "$out/etcd" ]; then
	packages=go.etcd.io/etcd/server/v3
	set -- "$@" -program "etcd=$out/server"
fi
for binary in kube-apiserver kube-controller-manager kubectl; do
	if [ ! -x "$out/$binary" ]; then
		packages="$packages k8s.io/kubernetes/cmd/$binary"
		set -- "$@" -program "$binary=$out/$binary"
	fi
done
if [ -n "$packages" ]; then
	echo "Compiling Kubernetes $version and etcd $etcd_version into bin/k8s: about 4 minutes on two cores, once, and less for a part."
	# The version that kubectl and the API server report; the default is v0.0.0-master.
	# shellcheck disable=SC2086 # lists of flags and packages
	(cd "$root" && go run $flags ./hack/compile -folder hack/k8s -name "the control plane" -count "$packages" "$@" -- -p 2 $flags \
		-ldflags "-s -w" -ldflags "k8s.io/kubernetes/cmd/...=-s -w -X k8s.io/component-base/version.gitVersion=$version" -o "$out/" $packages)
	[ ! -e "$out/server" ] || mv "$out/server" "$out/etcd"
fi
echo "$wanted" >"$stamp"
