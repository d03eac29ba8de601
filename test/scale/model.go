package scale

import (
	"fmt"
	"math"
	"time"
)

// aim is the utilization at the busiest hour for which processors are chosen.
const aim = 0.6

// Need is what a size needs in its busiest hour.
type Need struct {
	Size Size
	// ServerProcessors and DatabaseProcessors are fully used ones, and Operator that of its resync.
	ServerProcessors, DatabaseProcessors, Operator float64
	// Servers and DatabaseMachine are the chosen numbers of servers and of PostgreSQL's processors.
	Servers, DatabaseMachine        int
	ServerMemory, OperatorMemory    float64 // bytes
	Disk, WorkingSet, WAL           float64 // bytes; WAL a second
	Commits, Statements, Decisions  float64 // a second
	Connections                     int
	Redis                           float64 // fully used threads
	RedisPrimaries                  int
	Parts                           []Part
	DocumentsOfServer, SessionsKept float64
}

// Part is what a thing takes on disk.
type Part struct {
	Name  string
	Rows  float64
	Bytes float64
	// Hot is the part that the busiest hour reads.
	Hot float64
}

// needOf computes the need of a size.
func needOf(s Size) Need {
	n := Need{Size: s, Servers: 1}
	for range 20 { // each further server reads each change
		servers := n.Servers
		n.load()
		n.Servers = max(2, int(math.Ceil(n.ServerProcessors/aim/float64(s.ProcessorsOfServer)))+s.Spare)
		if n.Servers == servers {
			break
		}
	}
	n.DatabaseMachine = machine(n.DatabaseProcessors / aim)
	documents := float64(s.Deployments * s.ResourcesOfDeployment)
	n.DocumentsOfServer = documents
	n.ServerMemory = serverCaches + documents*serverDocument + float64(s.ProcessorsOfServer*hashMemory)
	n.OperatorMemory = operatorBase + documents*operatorDocument
	n.Operator = documents * reconcile.Seconds() / resync.Seconds()
	n.Connections = connectionsOfProcess * (n.Servers + 2)
	n.store()
	return n
}

// load computes the processors and the rates.
func (n *Need) load() {
	n.ServerProcessors, n.DatabaseProcessors, n.WAL, n.Commits, n.Statements, n.Decisions = 0, 0, 0, 0, 0, 0
	for _, r := range n.Size.rates(n.Servers) {
		n.ServerProcessors += r.PerSecond * r.Operation.Server.Seconds()
		n.DatabaseProcessors += r.PerSecond * r.Operation.Database.Seconds()
		n.WAL += r.PerSecond * float64(r.Operation.WAL)
		n.Commits += r.PerSecond * float64(r.Operation.Commits)
		n.Statements += r.PerSecond * float64(r.Operation.Statements)
		switch r.Operation.Name {
		case decisionByKey.Name, firstKeyUse.Name, decisionByToken.Name:
			n.Decisions += r.PerSecond
		case leaseCall.Name:
			n.Redis = r.PerSecond * redisCall.Seconds()
			n.RedisPrimaries = int(math.Ceil(n.Redis / aim))
		}
	}
	polls := float64(n.Servers * idlePolls)
	n.Statements += polls
	n.DatabaseProcessors += polls * pollCost.Seconds()
}

// machine returns the smallest usual number of processors that is enough.
func machine(processors float64) int {
	for n := 2; ; n *= 2 {
		if float64(n) >= processors {
			return n
		}
	}
}

// daily returns how often a day an operation runs.
func (s Size) daily(name string) float64 {
	for _, of := range s.PerActiveUser {
		if of.Operation.Name == name {
			return float64(s.Users) * s.ActiveShare * of.Times
		}
	}
	return 0
}

// store computes the disk and the working set.
func (n *Need) store() {
	s, users := n.Size, float64(n.Size.Users)
	signIns := s.daily(byPassword.Name) + s.daily(byPasskey.Name)
	calls := s.daily(agentRead.Name) + s.daily(agentWrite.Name)
	n.SessionsKept = signIns * float64(s.SessionDays)
	// An active user's rows are in pages with rows of users who are not active.
	touched := 1 - math.Pow(1-s.ActiveShare*hourlyShare, rowsOfPage)
	keysTouched := 1 - math.Pow(1-s.KeysUsedInMinute, rowsOfPage)
	lastDay := func(days int) float64 { return 1 / float64(max(days, 1)) }
	for _, of := range []struct {
		name      string
		rows      float64
		bytes     int
		hotShares float64
	}{
		{"users, with addresses and passwords", users, bytesUser, touched},
		{"passkeys", users * s.PasskeyShare, bytesPasskey, touched * s.ActiveShare},
		{"memberships and organizations", users, bytesMember, touched},
		{"known clients", users, bytesKnownClient, touched * s.ActiveShare},
		{"sessions", n.SessionsKept, bytesSession, 1},
		{"OAuth grants and tokens", users * s.GrantShare, bytesGrant, touched},
		{"runtime API keys", users * s.KeysOfUser, bytesKey, keysTouched},
		{"audit", (signIns + s.daily(tokenByCode.Name)) * float64(s.AuditDays), bytesAudit, lastDay(s.AuditDays)},
		{"records of tools' calls", calls * float64(s.CallDays), bytesToolCall, lastDay(s.CallDays)},
		{"sign-ins that are counted, a year", signIns * float64(s.KeptDays), bytesSignIn, lastDay(s.KeptDays)},
		{"addresses of sign-ins", signIns * float64(s.AddressDays), bytesRecentSignIn - bytesSignIn, lastDay(s.AddressDays)},
	} {
		part := Part{Name: of.name, Rows: of.rows, Bytes: of.rows * float64(of.bytes)}
		part.Hot = part.Bytes * of.hotShares
		n.Parts = append(n.Parts, part)
		n.Disk += part.Bytes
		n.WorkingSet += part.Hot
	}
}

// Resource is a resource of an install with its use, and the most that there is.
type Resource struct {
	Name      string
	Use, Most float64
	// Limit is Most in words.
	Limit string
}

// Utilization returns the used share.
func (r Resource) Utilization() float64 { return r.Use / r.Most }

// The most that one install is computed with: an assumption about the largest machine for PostgreSQL and for a server,
// not a bound of Cardea.
const (
	mostProcessors  = 64
	mostRedis       = 16
	mostMemory      = 512 * gb
	mostDisk        = 16_000 * gb
	mostConnections = 2_000
	mostServer      = 16 * gb
	mostWAL         = 200_000_000
)

// installed returns the resources of the recommended install whose use grows with the load.
func (n *Need) installed() []Resource {
	servers := (n.Servers - n.Size.Spare) * n.Size.ProcessorsOfServer
	return []Resource{
		{"servers' processors", n.ServerProcessors, float64(servers), fmt.Sprintf("%d processors", servers)},
		{"PostgreSQL processors", n.DatabaseProcessors, float64(n.DatabaseMachine), fmt.Sprintf("%d processors", n.DatabaseMachine)},
		{"Redis", n.Redis, float64(n.RedisPrimaries), fmt.Sprintf("%d primaries", n.RedisPrimaries)},
	}
}

// ceilings returns the resources of which one install has one, whatever the number of servers, compared with the most
// that one install is assumed to have.
func (n *Need) ceilings() []Resource {
	return []Resource{
		{"PostgreSQL processors", n.DatabaseProcessors, mostProcessors, fmt.Sprintf("%d processors", mostProcessors)},
		{"PostgreSQL memory (working set)", n.WorkingSet, mostMemory, bytesText(mostMemory)},
		{"PostgreSQL disk", n.Disk, mostDisk, bytesText(mostDisk)},
		{"PostgreSQL log", n.WAL, mostWAL, bytesText(mostWAL) + " a second"},
		{"PostgreSQL connections", float64(n.Connections), mostConnections, number(mostConnections)},
		{"memory of each server", n.ServerMemory, mostServer, bytesText(mostServer)},
		{"Redis", n.Redis, mostRedis, fmt.Sprintf("a cluster of %d primaries", mostRedis)},
	}
}

// idle is the utilization below which a resource is not said to saturate.
const idle = 0.05

// saturates names the resource with the highest utilization, with it.
func saturates(all []Resource) string {
	first := saturating(all)
	if first.Utilization() < idle {
		return "none: all below " + percent(idle)
	}
	return first.Name + ", " + percent(first.Utilization())
}

// fsyncs is the number of commits compared with one fsync after another, each for one commit. Above 1, commits have to
// share fsyncs.
func (n *Need) fsyncs() float64 { return n.Commits * fsync.Seconds() }

// saturating returns the resource with the highest utilization.
func saturating(all []Resource) Resource {
	first := all[0]
	for _, r := range all[1:] {
		if r.Utilization() > first.Utilization() {
			first = r
		}
	}
	return first
}

// importing returns how long an import of all users with their addresses takes at the measured rates:
// docs/benchmarks.md, import, PostgreSQL, 67,200 users and 34,500 addresses a second.
func (s Size) importing() time.Duration {
	const users, emails = 67_200, 34_500
	return time.Duration(float64(s.Users) * (1.0/users + 1.0/emails) * float64(time.Second))
}
