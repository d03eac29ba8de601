package scale

// Size is an install and its use. Each number is an assumption.
type Size struct {
	Name                      string
	Deployments, Users        int
	ResourcesOfDeployment     int
	ActiveShare               float64 // of users on one day
	DecisionsByKeyOfUser      float64 // a day, of each registered user
	KeysOfUser                float64
	KeysUsedInMinute          float64 // share of keys that are used in a peak minute
	ChangesOfDeployment       float64 // of resources, a day
	PasskeyShare, GrantShare  float64 // of users
	SessionDays, AuditDays    int
	CallDays, AddressDays     int
	KeptDays                  int // of analytics, for which the disk is computed
	PerActiveUser             []Daily
	ProcessorsOfServer, Spare int
}

// Daily is how often an active user causes an operation on one day.
type Daily struct {
	Operation Operation
	Times     float64
}

// sizes returns the three sizes of the page.
func sizes() []Size {
	return []Size{size("small", 10, 100_000), size("medium", 100, 10_000_000), size("large", 1_000, 100_000_000)}
}

func size(name string, deployments, users int) Size {
	return Size{
		Name: name, Deployments: deployments, Users: users, ResourcesOfDeployment: 200,
		ActiveShare: 0.1, DecisionsByKeyOfUser: 20, KeysOfUser: 0.1, KeysUsedInMinute: 0.02, ChangesOfDeployment: 10,
		PasskeyShare: 0.2, GrantShare: 0.2, SessionDays: 7, AuditDays: 400, CallDays: 90, AddressDays: 30, KeptDays: 365,
		PerActiveUser: []Daily{
			{getSession, 20}, {sessionToken, 30}, {sessionUse, 27}, {switchOrg, 0.1}, {byPassword, 0.16}, {byPasskey, 0.04}, {sessionEnd, 0.2}, {rollUpEvent, 0.2},
			{decisionByToken, 200}, {tokenByCode, 0.1}, {refresh, 1}, {machineToken, 0.1}, {introspection, 1}, {agentRead, 0.2}, {agentWrite, 0.05},
		},
		ProcessorsOfServer: 4, Spare: 1,
	}
}

const (
	// peakSeconds turns a day's number into a rate: the busiest hour has a tenth of the day.
	peakSeconds = 36_000
	// hourlyShare is the share of a day's active users who are active in the busiest hour.
	hourlyShare = 0.25
	// rowsOfPage is how many rows a page of PostgreSQL holds, about: 8 KiB of rows of the sizes above with their indexes.
	rowsOfPage = 10
)

// Rate is how often an operation runs, a second.
type Rate struct {
	Operation Operation
	PerSecond float64
}

// rates returns the rates of the busiest hour with a number of servers.
func (s Size) rates(servers int) (all []Rate) {
	active := float64(s.Users) * s.ActiveShare
	for _, of := range s.PerActiveUser {
		all = append(all, Rate{of.Operation, active * of.Times / peakSeconds})
	}
	byKey := float64(s.Users) * s.DecisionsByKeyOfUser / peakSeconds
	used := float64(s.Users) * s.KeysOfUser * s.KeysUsedInMinute
	missed := byKey * max(0, 1-keysCached/max(used, 1))
	changes := float64(s.Deployments) * s.ChangesOfDeployment / peakSeconds
	return append(all, Rate{decisionByKey, byKey - missed}, Rate{firstKeyUse, missed}, Rate{leaseCall, byKey * callsOf(byKey/max(used, 1)/float64(servers))}, Rate{keyUse, min(byKey, used/60)},
		Rate{change, changes}, Rate{changeRead, changes * float64(servers)})
}

// callsOf returns which share of the decisions about a key call Redis, if a server decides so many a second about it. A
// lease serves the decision that asked for it and those that follow while it lasts.
func callsOf(perSecond float64) float64 {
	return max(fewestCalls, 1/(1+perSecond*leaseLasts.Seconds()))
}
