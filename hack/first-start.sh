#!/bin/sh
# Prints in one line what `make run` does before it starts Cardea, and how long that takes. Prints nothing if nothing is missing.
# Arguments: the path of the binary of Cardea, and any second one if binaries of the control plane are needed.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
plane=
cardea=
if [ -n "${2:-}" ] && ! "$root/hack/build-k8s.sh" --check; then
	if [ -n "${CARDEA_K8S_MIRROR:-}" ]; then
		plane="fetching the Kubernetes control plane from CARDEA_K8S_MIRROR (a minute on a fast line, once)"
	else
		plane="compiling the Kubernetes control plane (about 4 minutes on two cores, once; CARDEA_K8S_MIRROR fetches it instead)"
	fi
fi
if [ ! -x "$1" ]; then
	cardea="compiling Cardea (about 2 minutes)"
fi
if [ -n "$plane$cardea" ]; then
	echo "First start: $plane${plane:+${cardea:+, then }}$cardea."
fi
