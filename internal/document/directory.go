package document

// KindDirectory is the kind of a directory, by its name in package v1alpha1.
const KindDirectory = "Directory"

// DirectoryTokenPrefix begins the tokens of directories: `scim_`, then the form of package apikey.
const DirectoryTokenPrefix = "scim"

// Directory is the content of a Directory, with effective values: the data that verifies its tokens, never a token.
type Directory struct {
	Slug string `json:"slug"`
	// Organization is the slug of the organization whose members the directory maintains.
	Organization string `json:"organization"`
	// Connection is the name of the Connection resource by which its users sign in, "" for none.
	Connection string `json:"connection,omitempty"`
	Active     bool   `json:"active"`
	// GroupRoles give members a role. The first one whose group contains the user counts.
	GroupRoles []GroupRole `json:"group_roles,omitempty"`
	// Erases reports that DELETE of a user deletes the account that the directory created.
	Erases bool `json:"erases,omitempty"`
	// Verifiers are the accepted tokens: the current one first, then the previous one during an overlap.
	Verifiers []Verifier `json:"verifiers"`
}

// GroupRole gives the members of a directory's group a role.
type GroupRole struct {
	// Group is the displayName of the group, compared exactly.
	Group string `json:"group"`
	// Role is the name of the MembershipRole resource.
	Role string `json:"role"`
}
