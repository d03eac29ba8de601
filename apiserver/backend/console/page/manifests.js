// The manifest of a change to a resource: its name, and the fields that its kind requires in addition to the changed ones.

// The fields of each kind's spec that are usually changed. References and slugs cannot change, so they have their present values.
const specs = {
  IdentityDeployment: ["displayName: Acme", "defaultRateLimitSchemeRef:", "  name: free"],
  RateLimitScheme: ["displayName: Free", "rules:", "- unit: minute", "  duration: 1", "  maxRequests: 60"],
  APIAuthApp: ["displayName: Shop", "permissions:", "- orders:read", "active: true"],
  APIKey: ["permissions:", "- orders:read", "expiresAt: \"2030-01-01T00:00:00Z\""],
  MembershipRole: ["displayName: Member", "permissions: []"],
  B2BSettings: ["enabled: true", "defaultWorkspaceLimit: 5"],
  OAuthApp: ["displayName: Shop", "active: true"],
  OAuthScope: ["displayName: Read orders", "description: Sees what was ordered."],
  OAuthClient: ["displayName: Reports", "redirectURIs:", "- https://reports.example/callback", "active: true"],
  JWTTemplate: ["displayName: Order service", "lifetimeSeconds: 60"],
  AITool: ["displayName: Weather", "active: true"],
  AIAgent: ["displayName: Helper", "active: true"],
  Connection: ["displayName: Globex", "active: true"],
  Directory: ["groupRoles:", "- {group: Engineering, roleRef: {name: developer}}", "active: true"],
  WebhookEndpoint: ["url: https://crm.example/hooks", "types: [\"user.*\", \"membership.*\"]", "active: true"],
};

// manifest returns the beginning of a merge patch, which contains only the fields that it changes.
export function manifest(r) {
  return [
    `kubectl -n ${r.namespace} patch ${r.plural}.iam.cardea.dev ${r.name} --type=merge --patch-file=/dev/stdin <<'EOF'`,
    `# kubectl explain ${r.plural}.spec lists every field`,
    "spec:", ...(specs[r.kind] ?? []).map((line) => "  " + line), "EOF",
  ].join("\n");
}
