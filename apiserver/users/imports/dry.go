package imports

import (
	"github.com/cardea-iam/cardea/store/people"
)

// Dry checks the lines of files by their form and by the lines before them, without the deployment.
type Dry struct {
	// seen holds the external ids of lines that other lines can refer to, by kind.
	seen map[string]map[string]bool
	// parents holds the organizations of workspaces, and members the pairs of an organization and a user.
	parents map[string]string
	members map[[2]string]bool
}

// NewDry returns a Dry without lines.
func NewDry() *Dry {
	return &Dry{
		seen:    map[string]map[string]bool{people.ImportedUser: {}, people.ImportedOrganization: {}, people.ImportedWorkspace: {}},
		parents: map[string]string{}, members: map[[2]string]bool{},
	}
}

// Check refuses a line with a fault.
func (d *Dry) Check(line *Line) {
	if line.Refused != nil {
		return
	}
	for _, reference := range [][2]string{{people.ImportedUser, line.User}, {people.ImportedOrganization, line.Organization}, {people.ImportedWorkspace, line.Workspace}} {
		if kind, externalID := reference[0], reference[1]; externalID != "" && !d.seen[kind][externalID] {
			line.fault(kind, "refers to no "+kind+" in earlier lines: move the line of that "+kind+" before this one, unless it was imported in an earlier batch")
			return
		}
	}
	if seen, referable := d.seen[line.Kind]; referable {
		seen[line.ExternalID] = true
	}
	switch line.Content.(type) {
	case *Workspace:
		d.parents[line.ExternalID] = line.Organization
	case *Membership:
		if line.Workspace != "" && !d.members[[2]string{d.parents[line.Workspace], line.User}] {
			line.fault("user", "is not a member of the workspace's organization in earlier lines: move the line of that membership before this one")
			return
		}
		d.members[[2]string{line.Organization, line.User}] = true
	}
}

// Faults returns the faults of a line, each with its member, "" for the line as a whole.
func (l *Line) Faults() [][2]string {
	if l.Refused == nil {
		return nil
	}
	var faults [][2]string
	for _, fault := range l.Refused.Faults {
		faults = append(faults, [2]string{fault.Pointer, fault.Message})
	}
	if len(faults) == 0 {
		faults = append(faults, [2]string{"", l.Refused.Text()})
	}
	return faults
}
