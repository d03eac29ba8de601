package cause

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Reasons of findings without a condition.
const (
	// ReasonNotSeen: the operator has not reconciled this generation yet.
	ReasonNotSeen = "NotSeen"
	// ReasonMissing: the referenced object does not exist.
	ReasonMissing = "Missing"
	// ReasonUnreadable: the caller may not read the referenced object.
	ReasonUnreadable = "Unreadable"
)

// cause is a condition's type and reason.
type cause struct{ condition, reason string }

// fixes say what to do about each cause. {kind}, {resource}, {name} and {namespace} are those of the resource,
// {deployment} is the name of its deployment, and {endpoint} selects a WebhookEndpoint for kubectl cardea webhooks.
var fixes = map[cause]string{
	{v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonNotFound}: "create the missing resource, or correct the name",
	{v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonOrganizationNotFound}: "let the application create the organization, or correct spec.organization.slug; " +
		"whoever creates an organization with this slug gets the connection or directory",
	{v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonBeingDeleted}: "refer to another resource, or create it again after it was deleted",

	{v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid}:           "correct the field that the message names: kubectl edit {resource} {name} -n {namespace}",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonUnknownPermission}: "add the permission to spec.permissionCatalog of the deployment, or use an existing permission",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonAssuranceUnreachable}: "enable a factor in the deployment that reaches the level (spec.secondFactor.totp, spec.signIn.passkey), " +
		"or require a lower level",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonConflict}: "choose another value, or delete the resource that has it",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonHostNotGranted}: "let a cluster admin add the host to the annotation " + v1alpha1.AnnotationAllowedHosts +
		" of namespace {namespace}",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonSuperseded}: "delete this resource, the declared one is active: kubectl delete {resource} {name} -n {namespace}",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonTooMany}: "delete unused resources of the deployment, or let a cluster admin raise the operator's " +
		"--max-deployment-documents or --max-deployment-bytes; the operator tries again each minute",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonSecretNotOwned}: "set spec.secretTemplate.name to another name; this loses nothing. " +
		"The Secret with the keys of an IdentityDeployment, an OAuthApp or a Connection has a fixed name: " +
		"copy the existing Secret to another name, let the programs that use it use the copy, and then delete the original. " +
		"Deleting it without a copy permanently loses its contents, so first find out which programs use it",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidKey}: "put a key of Cardea's form into the Secret (cardea key new --prefix PREFIX); " +
		"the prefix for a Directory is scim, and a client's secret has 32 to 512 visible ASCII characters",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonPending}: "no action is needed: it is evaluated once the other conditions are True",

	{v1alpha1.ConditionSynced, v1alpha1.ReasonStoreUnavailable}: "check the runtime store and the operator's log; the operator retries by itself",
	{v1alpha1.ConditionSynced, v1alpha1.ReasonPending}:          "no action is needed: it follows once the other conditions are True",

	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotFound}:    "create the Secret with the key that the message names",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonConfigMapNotFound}: "create the ConfigMap with the key that the message names",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing}:    "start the operator with --root-key, and the servers with the same file",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonNoFrontendHost}:    "add a host to spec.frontendHosts of the deployment, or sign with HMAC: kubectl edit identitydeployment {deployment} -n {namespace}",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotShared}: "let a user with the right to edit the Secret label it " + v1alpha1.LabelDeployment +
		"={deployment}, or use another Secret of type Opaque that Cardea did not generate; " +
		"if the message names a host, add the host to the Secret's annotation " + v1alpha1.AnnotationHosts,
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonInvalid}: "correct the value in the Secret that the message names",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretForbidden}: "kubectl create rolebinding cardea-operator-secrets -n {namespace} " +
		"--clusterrole=cardea-operator-secrets --serviceaccount=<namespace of Cardea>:<cardea-operator or cardea-standalone>",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonExpired}:      "set a later spec.expiresAt, or delete it: kubectl delete {resource} {name} -n {namespace}",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonBeingDeleted}: "wait until it is deleted",

	{v1alpha1.ConditionDeleting, v1alpha1.ReasonInUse}:            "change the references of the resources that the message names, or delete them",
	{v1alpha1.ConditionDeleting, v1alpha1.ReasonStoreUnavailable}: "check the runtime store, which must delete it first; the operator retries by itself",
	{v1alpha1.ConditionDeleting, v1alpha1.ReasonProgressing}:      "wait; if it stays, check the operator's log",
	{v1alpha1.ConditionDeleting, v1alpha1.ReasonBeingDeleted}:     "wait; if it stays, check whether the operator runs: kubectl cardea doctor",

	{v1alpha1.ConditionFormerPeople, v1alpha1.ReasonFoundPeople}: "if these users belong to the new deployment, accept them; nothing is lost: " +
		"kubectl annotate {resource} {name} -n {namespace} " + v1alpha1.AnnotationFormerPeopleAccepted + "=true. " +
		"Otherwise set spec.deletionPolicy: Delete, delete the deployment and create it again: " +
		"this permanently loses all of its users, their sessions, organizations and consents, " +
		"and the deployment is not served meanwhile. Run cardea backup before",
	{v1alpha1.ConditionIssuerChanged, v1alpha1.ReasonHostsChanged}: "announce the new issuer to the app's clients, or restore the hosts within the minute",

	{v1alpha1.ConditionPasskeysReady, v1alpha1.ReasonNoFrontendHost}:          "add a host to spec.frontendHosts, or remove spec.signIn.passkey",
	{v1alpha1.ConditionPasskeysReady, v1alpha1.ReasonRelatedOriginsElsewhere}: "serve the JSON of the message at the URL that it names, or add the relying party to spec.frontendHosts",
	{v1alpha1.ConditionPasskeysReady, v1alpha1.ReasonTooManyRelatedOrigins}:   "use fewer domains in spec.frontendHosts and spec.allowedOrigins, or move origins to other deployments",

	{v1alpha1.ConditionCallable, v1alpha1.ReasonInvalid}:            "correct the field that the message names: kubectl edit {resource} {name} -n {namespace}",
	{v1alpha1.ConditionCallable, v1alpha1.ReasonNoEndpoint}:         "set spec.endpoint; if the application performs the calls itself, no action is needed",
	{v1alpha1.ConditionCallable, v1alpha1.ReasonInactive}:           "set spec.active to true, or remove it, if agents are to call the tool",
	{v1alpha1.ConditionCallable, v1alpha1.ReasonCredentialsMissing}: "correct the Secret that the message and the condition CredentialsReady name",
	{v1alpha1.ConditionCallable, v1alpha1.ReasonNoFrontendHost}:     "add a host to spec.frontendHosts of the deployment: kubectl edit identitydeployment {deployment} -n {namespace}",
	{v1alpha1.ConditionCallable, v1alpha1.ReasonNotPerformed}:       "declare a JWTTemplate and set spec.authorization.jwtTemplateRef; no action is needed if the application performs the calls",
	{v1alpha1.ConditionReachable, v1alpha1.ReasonPending}:           "wait a moment; if it stays, check whether servers run: kubectl cardea doctor",
	{v1alpha1.ConditionReachable, v1alpha1.ReasonUnreachable}: "check the issuer or metadata URL and the network policy of the servers; " +
		"they try again each minute, and sign-ins use the last documents for seven days",
	{v1alpha1.ConditionReachable, v1alpha1.ReasonRefused}:         "if the identity provider is in a private network, start the servers with --egress-allowed-cidrs=<its address range>",
	{v1alpha1.ConditionReachable, v1alpha1.ReasonInvalidMetadata}: "correct the document that the message names at the identity provider or in the ConfigMap, or the issuer: kubectl edit {resource} {name} -n {namespace}",
	{v1alpha1.ConditionReachable, v1alpha1.ReasonIssuerMismatch}:  "write the issuer exactly as the provider's discovery document states it: kubectl edit {resource} {name} -n {namespace}",
	{v1alpha1.ConditionCertificateExpiring, v1alpha1.ReasonExpiring}: "let the identity provider publish its next certificate; " +
		"if the metadata comes from a ConfigMap, replace it there",
	{v1alpha1.ConditionCertificateExpiring, v1alpha1.ReasonExpired}: "let the identity provider publish its next certificate; " +
		"if the metadata comes from a ConfigMap, replace it there",
	{v1alpha1.ConditionMetadataChanged, v1alpha1.ReasonChanged}:  "no action is needed if the provider announced the change; otherwise ask its administrator",
	{v1alpha1.ConditionServed, v1alpha1.ReasonNoFrontendHost}:    "add a host to spec.frontendHosts of the deployment: kubectl edit identitydeployment {deployment} -n {namespace}",
	{v1alpha1.ConditionServed, v1alpha1.ReasonInactive}:          "set spec.active to true, or remove it, if MCP clients are to call the agent's tools, or the identity provider is to use the directory",
	{v1alpha1.ConditionServed, v1alpha1.ReasonAppNotReady}:       "create the OAuthApp of spec.access.oauthAppRef, or add a host to spec.frontendHosts of its deployment",
	{v1alpha1.ConditionServed, v1alpha1.ReasonDuplicateToolName}: "set spec.toolName of one of the two tools to another name",

	{v1alpha1.ConditionDelivering, v1alpha1.ReasonPending}:  "wait a moment; if it stays, check whether servers run: kubectl cardea doctor",
	{v1alpha1.ConditionDelivering, v1alpha1.ReasonInactive}: "set spec.active to true, or remove it, if events are to be sent; if CredentialsReady is False, correct that",
	{v1alpha1.ConditionDelivering, v1alpha1.ReasonFailing}: "correct the receiver of spec.url; servers try again by themselves, and after retrySeconds a delivery has failed: " +
		"kubectl cardea webhooks deliveries {endpoint} --status failed -n {namespace}",
	{v1alpha1.ConditionDelivering, v1alpha1.ReasonDisabled}: "correct the receiver, then enable the endpoint: kubectl cardea webhooks reactivate {endpoint} -n {namespace}, " +
		"or set spec.active to false and to true again: kubectl edit {resource} {name} -n {namespace}",

	{v1alpha1.ConditionRelyingPartyChanged, v1alpha1.ReasonOtherPasskeys}: "set spec.signIn.passkey.relyingPartyID to the relying party that the message names, if these passkeys are to work again; " +
		"otherwise no action is needed: users add new passkeys",

	{v1alpha1.ConditionNamedAsPermission, v1alpha1.ReasonInCatalog}: "rename the scope or the permission, or let gateways accept only principal=api_key or session_token where the permission is required",

	{v1alpha1.ConditionReady, v1alpha1.ReasonSuspended}: "remove spec.suspend to continue: " +
		`kubectl patch {resource} {name} -n {namespace} --type=json -p '[{"op":"remove","path":"/spec/suspend"}]'`,
	{v1alpha1.ConditionReady, ReasonNotSeen}:    "wait a moment; if it stays, check whether the operator runs: kubectl cardea doctor",
	{v1alpha1.ConditionReady, ReasonMissing}:    "create it, or correct the name in the reference",
	{v1alpha1.ConditionReady, ReasonUnreadable}: "ask for the right to read it (ClusterRole view, for Secrets edit), or ask a user with that right",
}

// unknown is the fix for reasons of a newer operator.
const unknown = "do what the message says; this reason is newer than this kubectl cardea"

// fixOf returns what to do about a condition of an object.
func fixOf(obj metav1.Object, kind, condition, reason string) string {
	text, known := fixes[cause{condition, reason}]
	if !known {
		text = unknown
	}
	resource := strings.ToLower(kind)
	return strings.NewReplacer("{kind}", kind, "{resource}", resource, "{name}", obj.GetName(), "{namespace}", obj.GetNamespace(),
		"{deployment}", deploymentOf(obj), "{endpoint}", endpointOf(obj)).Replace(text)
}

// endpointOf returns the argument that selects a WebhookEndpoint for kubectl cardea webhooks: its name, or its id if it
// has a display name, which may need quotes, and which other endpoints may have too.
func endpointOf(obj metav1.Object) string {
	e, is := obj.(*v1alpha1.WebhookEndpoint)
	if is && e.Spec.DisplayName != nil && string(*e.Spec.DisplayName) != e.Name && e.Status.ID != "" {
		return e.Status.ID
	}
	return obj.GetName()
}

// deploymentOf returns the name of the deployment that a resource names, its own name if it names none.
func deploymentOf(obj metav1.Object) string {
	if declared, is := obj.(v1alpha1.Resource); is {
		for _, ref := range References(declared) {
			if ref.Kind == v1alpha1.KindIdentityDeployment {
				return ref.Name
			}
		}
	}
	return obj.GetName()
}
