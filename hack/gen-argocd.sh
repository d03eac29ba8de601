#!/bin/sh
# Writes config/argocd/argocd-cm.yaml, which contains health.lua in Argo CD's form.
set -eu
cd "$(dirname "$0")/../config/argocd"
{
	cat <<'HEAD'
# For Argo CD's own ConfigMap:
# kubectl patch configmap argocd-cm -n argocd --type merge --patch-file config/argocd/argocd-cm.yaml
# Generated from health.lua by `make manifests`.
data:
  # A key for a single kind allows no wildcard; this form does.
  resource.customizations: |
    iam.cardea.dev/*:
      health.lua: |
HEAD
	sed -e 's/^\(.\)/        \1/' health.lua
} >argocd-cm.yaml
