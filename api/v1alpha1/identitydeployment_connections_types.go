package v1alpha1

// ConnectionSelfService selects whether organizations manage their own connections, domains and directories.
// +kubebuilder:validation:Enum=Disabled;Enabled
type ConnectionSelfService string

const (
	// ConnectionSelfServiceDisabled leaves connections and directories to resources and to backends.
	ConnectionSelfServiceDisabled ConnectionSelfService = "Disabled"
	// ConnectionSelfServiceEnabled lets owners of an organization, and its members with the permission connection:manage,
	// set up its connections and directories, and prove its domains.
	ConnectionSelfServiceEnabled ConnectionSelfService = "Enabled"
)

// RuntimeConnectionType is a type of the connections that organizations and backends set up. `OIDC`: an OpenID
// provider. `SAML`: a provider of SAML 2.0.
// +kubebuilder:validation:Enum=OIDC;SAML
type RuntimeConnectionType string

const (
	// RuntimeConnectionOIDC is an OpenID provider.
	RuntimeConnectionOIDC RuntimeConnectionType = "OIDC"
	// RuntimeConnectionSAML is a provider of SAML 2.0.
	RuntimeConnectionSAML RuntimeConnectionType = "SAML"
)

// OrganizationConnections configure the connections and directories that organizations and backends set up, in addition
// to the Connection and Directory resources. Declared empty, it permits backends to do so.
type OrganizationConnections struct {
	// selfService selects whether organizations manage their own connections, domains and directories. `Disabled`: only
	// resources and backends do. `Enabled`: owners, and members with the permission connection:manage, do too. Absent:
	// Disabled.
	// +optional
	SelfService *ConnectionSelfService `json:"selfService,omitempty"`

	// types are the types of connections that organizations may set up. Absent: all of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Types []RuntimeConnectionType `json:"types,omitempty"`

	// maxPerOrganization is how many connections an organization may have that it or a backend set up, 1 to 20. Existing
	// ones are kept. Absent: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxPerOrganization *int32 `json:"maxPerOrganization,omitempty"`

	// directories selects whether organizations that manage their own connections may set up directories (SCIM) too.
	// Existing ones are kept, and backends may always set them up. Absent: true.
	// +optional
	Directories *bool `json:"directories,omitempty"`
}
