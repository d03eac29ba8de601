package cause

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Reasons of this package, for what no condition tells.
const (
	// ReasonNotSeen: the operator has not looked at this generation yet.
	ReasonNotSeen = "NotSeen"
	// ReasonMissing: what is referred to does not exist.
	ReasonMissing = "Missing"
	// ReasonUnreadable: the caller may not read what is referred to.
	ReasonUnreadable = "Unreadable"
)

// cause is a condition's type and reason.
type cause struct{ condition, reason string }

// mends say what to do about each cause. {kind}, {resource}, {name} and {namespace} are those of the resource.
var mends = map[cause]string{
	{v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonNotFound}:     "create what is missing, or correct the name",
	{v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonBeingDeleted}: "refer to another, or create that one again once it is gone",

	{v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid}:           "mend the field that is named: kubectl edit {resource} {name} -n {namespace}",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonUnknownPermission}: "add the permission to spec.permissionCatalog of the deployment, or use one that is there",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonConflict}:          "choose another, or delete the resource that holds it",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonHostNotGranted}: "let a cluster admin add the host to those in the annotation " + v1alpha1.AnnotationAllowedHosts +
		" of namespace {namespace}",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonSuperseded}: "delete this one, the declared one is in force: kubectl delete {resource} {name} -n {namespace}",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonTooMany}: "delete resources of the deployment that nobody needs, or let a cluster admin raise the operator's " +
		"--max-deployment-documents or --max-deployment-bytes; the operator tries again each minute",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonSecretNotOwned}: "set spec.secretTemplate.name to another name; this loses nothing. " +
		"The Secret with the signing key of an IdentityDeployment or OAuthApp has a fixed name: " +
		"copy the existing Secret to another name, let the programs that use it use the copy, and then delete the original. " +
		"Deleting it without a copy permanently loses its contents, so first find out which programs use it",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidKey}: "put a key of Cardea's form into the Secret (cardea key new --prefix PREFIX); " +
		"a client's secret has 32 to 512 visible ASCII characters",
	{v1alpha1.ConditionAccepted, v1alpha1.ReasonPending}: "nothing here: it is judged once the other conditions are well",

	{v1alpha1.ConditionSynced, v1alpha1.ReasonStoreUnavailable}: "look at the runtime store and the operator's log; the operator retries by itself",
	{v1alpha1.ConditionSynced, v1alpha1.ReasonPending}:          "nothing here: it follows once the other conditions are well",

	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotFound}:    "create the Secret with the key that is named",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonConfigMapNotFound}: "create the ConfigMap with the key that is named",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing}:    "start the operator with --root-key, and the servers with the same file",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotShared}: "let who may edit the Secret label it " + v1alpha1.LabelDeployment +
		"={name}, or name another of type Opaque that Cardea did not generate",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretForbidden}: "kubectl create rolebinding cardea-operator-secrets -n {namespace} " +
		"--clusterrole=cardea-operator-secrets --serviceaccount=<namespace of Cardea>:<cardea-operator or cardea-standalone>",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonExpired}:      "set a later spec.expiresAt, or delete it: kubectl delete {resource} {name} -n {namespace}",
	{v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonBeingDeleted}: "wait until what is being deleted is gone",

	{v1alpha1.ConditionDeleting, v1alpha1.ReasonInUse}:            "let those that are named refer to something else, or delete them",
	{v1alpha1.ConditionDeleting, v1alpha1.ReasonStoreUnavailable}: "look at the runtime store, which must forget it first; the operator retries by itself",
	{v1alpha1.ConditionDeleting, v1alpha1.ReasonProgressing}:      "wait; if it stays, look at the operator's log",
	{v1alpha1.ConditionDeleting, v1alpha1.ReasonBeingDeleted}:     "wait; if it stays, see whether the operator runs: kubectl cardea doctor",

	{v1alpha1.ConditionFormerPeople, v1alpha1.ReasonFoundPeople}: "if these users belong to the new deployment, accept them; nothing is lost: " +
		"kubectl annotate {resource} {name} -n {namespace} " + v1alpha1.AnnotationFormerPeopleAccepted + "=true. " +
		"Otherwise set spec.deletionPolicy: Delete, delete the deployment and create it again: " +
		"this permanently loses all of its users, their sessions, organizations and consents, " +
		"and the deployment is not served meanwhile. Run cardea backup before",
	{v1alpha1.ConditionIssuerChanged, v1alpha1.ReasonHostsChanged}: "tell the app's clients the new issuer, or put the hosts back as they were within the minute",

	{v1alpha1.ConditionNamedAsPermission, v1alpha1.ReasonInCatalog}: "name the scope or the permission otherwise, or let gateways accept principal=api_key or session_token alone where the permission is required",

	{v1alpha1.ConditionReady, v1alpha1.ReasonSuspended}: "remove spec.suspend when you want to go on: " +
		`kubectl patch {resource} {name} -n {namespace} --type=json -p '[{"op":"remove","path":"/spec/suspend"}]'`,
	{v1alpha1.ConditionReady, ReasonNotSeen}:    "wait a moment; if it stays, see whether the operator runs: kubectl cardea doctor",
	{v1alpha1.ConditionReady, ReasonMissing}:    "create it, or correct the name where it is referred to",
	{v1alpha1.ConditionReady, ReasonUnreadable}: "ask for the right to read it (ClusterRole view, for Secrets edit), or let who has it look",
}

// unknown is the mend of what a newer operator says.
const unknown = "do what the message says; this reason is newer than this kubectl cardea"

// mend returns what to do about a condition of an object.
func mend(obj metav1.Object, kind, condition, reason string) string {
	text, known := mends[cause{condition, reason}]
	if !known {
		text = unknown
	}
	resource := strings.ToLower(kind)
	return strings.NewReplacer("{kind}", kind, "{resource}", resource, "{name}", obj.GetName(), "{namespace}", obj.GetNamespace()).Replace(text)
}
