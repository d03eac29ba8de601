#!/bin/sh
# Writes config/argocd/argocd-cm.yaml, in which Argo CD takes health.lua.
set -eu
cd "$(dirname "$0")/../config/argocd"
{
	cat <<'HEAD'
# For Argo CD's own ConfigMap:
# kubectl patch configmap argocd-cm -n argocd --type merge --patch-file config/argocd/argocd-cm.yaml
# Made of health.lua by `make manifests`.
data:
  # A key for each kind takes no wildcard; this form of it does.
  resource.customizations: |
    iam.cardea.dev/*:
      health.lua: |
HEAD
	sed -e 's/^\(.\)/        \1/' health.lua
} >argocd-cm.yaml
