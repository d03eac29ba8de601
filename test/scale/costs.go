// Package scale computes what an install bears, for docs/scale.md: the processors, memory, disk and connections that a
// workload needs, from measured costs, and the latency at a utilization, by simulation.
package scale

import "time"

// Operation is a kind of request, with what one request costs.
type Operation struct {
	Name string
	// Server is processor time of a server, with the driver of the database. Database is processor time of PostgreSQL.
	Server, Database    time.Duration
	Statements, Commits int
	// WAL is bytes of PostgreSQL's write-ahead log.
	WAL int
}

// bound names the process that works most for the operation. Two that differ by less than a fifth are alike.
func (o Operation) bound() string {
	server, database := o.Server.Seconds(), o.Database.Seconds()
	switch {
	case o.Name == byPassword.Name:
		return "server processor (Argon2id)"
	case o.Name == leaseCall.Name:
		return "Redis"
	case server > 1.2*database:
		return "server processor"
	case database > 1.2*server:
		return "PostgreSQL processor"
	}
	return "both alike"
}

const (
	// socket is the processor time of net/http for a request. It is added to requests measured without sockets:
	// docs/benchmarks-log.md, 70,400 a second of the bare handler.
	socket = 14 * time.Microsecond
	// verification is the processor time of an ES256 signature of a token: docs/benchmarks.md, strong authentication,
	// an assertion's whole verification. A token's own verification was not measured alone.
	verification = 56 * time.Microsecond
	// onlyAPI is the part of the client and the API in a measured call of a tool: docs/benchmarks.md, processor time by
	// process.
	onlyAPI = 22 * time.Microsecond
)

// The operations. Unless a comment names another source, the costs are those of docs/benchmarks.md, processor time by
// process.
var (
	// decisionByKey: docs/benchmarks.md, latency of forward-auth over HTTP, 21,700 a second keep a processor 75 % busy.
	decisionByKey = Operation{Name: "decision by API key that the server has cached", Server: 35 * time.Microsecond}
	// decisionByToken is decisionByKey with a verification: as if no token were ever cached.
	decisionByToken = Operation{Name: "decision by session token, first use on a server", Server: decisionByKey.Server + verification}
	// firstKeyUse: docs/benchmarks.md, first use of a runtime key, p50 0.14 ms. Half of it is counted for each process.
	firstKeyUse = Operation{Name: "decision by API key that the server has not cached", Server: decisionByKey.Server + 70*time.Microsecond, Database: 70 * time.Microsecond, Statements: 1}
	// keyUse is an estimate: one row of an UPDATE of up to 500 rows.
	keyUse = Operation{Name: "time of a key's last use, once a minute (estimate)", Server: 10 * time.Microsecond, Database: 40 * time.Microsecond, WAL: 250}

	// leaseCall: docs/benchmarks.md, comparison with envoyproxy/ratelimit: 63 µs when each decision asks Redis, 25 µs with
	// leases.
	leaseCall = Operation{Name: "call to Redis for a lease", Server: 38 * time.Microsecond}

	getSession    = Operation{Name: "GET /session", Server: 178*time.Microsecond + socket, Database: 191 * time.Microsecond, Statements: 3}
	sessionToken  = Operation{Name: "POST /session/token", Server: 246*time.Microsecond + socket, Database: 154 * time.Microsecond, Statements: 2}
	sessionUse    = Operation{Name: "record of a session's use, once a minute", Server: 229 * time.Microsecond, Database: 292 * time.Microsecond, Statements: 3, Commits: 1, WAL: 188}
	switchOrg     = Operation{Name: "switch-organization", Server: 791*time.Microsecond + socket, Database: 990 * time.Microsecond, Statements: 14, Commits: 1, WAL: 1204}
	byPassword    = Operation{Name: "sign-in by password", Server: 30706*time.Microsecond + socket, Database: 3917 * time.Microsecond, Statements: 44, Commits: 2, WAL: 4500}
	byPasskey     = Operation{Name: "sign-in by passkey", Server: 1106*time.Microsecond + socket, Database: 1198 * time.Microsecond, Statements: 19, Commits: 1, WAL: 3306}
	tokenByCode   = Operation{Name: "OAuth token by code", Server: 713*time.Microsecond + socket, Database: 588 * time.Microsecond, Statements: 9, Commits: 1, WAL: 1258}
	refresh       = Operation{Name: "OAuth token by refresh", Server: 857*time.Microsecond + socket, Database: 742 * time.Microsecond, Statements: 12, Commits: 1, WAL: 934}
	machineToken  = Operation{Name: "OAuth token by client_credentials", Server: 81*time.Microsecond + socket}
	introspection = Operation{Name: "introspection", Server: 184*time.Microsecond + socket, Database: 161 * time.Microsecond, Statements: 4}
	agentRead     = Operation{Name: "agent's call of a tool that reads", Server: 153*time.Microsecond - onlyAPI, Database: 12 * time.Microsecond, WAL: 656}
	agentWrite    = Operation{Name: "agent's call of a tool that writes", Server: 490*time.Microsecond - onlyAPI, Database: 319 * time.Microsecond, Statements: 2, Commits: 2, WAL: 1274}

	// sessionEnd is an estimate: the deletion of an expired session has about the statements of a switch-organization.
	sessionEnd = Operation{Name: "end of an expired session (estimate)", Server: switchOrg.Server, Database: switchOrg.Database, Statements: 8, Commits: 1, WAL: switchOrg.WAL}
	// rollUpEvent: docs/benchmarks.md, roll-up, while it works, 34,500 a second by one worker, which is 29 µs. Each
	// process is counted with all of it.
	rollUpEvent = Operation{Name: "roll-up of an event", Server: 29 * time.Microsecond, Database: 29 * time.Microsecond, WAL: 500}
	// change: docs/benchmarks.md, the store alone, 8 writers put 1,761 a second on two processors. The read of the
	// change by each server is changeRead.
	change = Operation{Name: "change of a resource, in the store", Server: 570 * time.Microsecond, Database: 570 * time.Microsecond, Statements: 10, Commits: 1, WAL: 3000}
	// changeRead: docs/benchmarks.md, Changes, one document among 10,000, on PostgreSQL at most 1.6 ms.
	changeRead = Operation{Name: "change of a resource, read by each server", Server: 800 * time.Microsecond, Database: 800 * time.Microsecond, Statements: 2}
)

// operations are all operations in the order of the table.
func operations() []Operation {
	return []Operation{decisionByKey, firstKeyUse, leaseCall, decisionByToken, keyUse, getSession, sessionToken, sessionUse, switchOrg, byPassword, byPasskey, sessionEnd,
		tokenByCode, refresh, machineToken, introspection, agentRead, agentWrite, change, changeRead, rollUpEvent}
}

// Bytes of a row on PostgreSQL with its indexes: TestRows with CARDEA_SCALE_ROWS=20000, bytesRecentSignIn with 3000.
const (
	bytesUser         = 1175
	bytesPasskey      = 593
	bytesMember       = 700
	bytesSession      = 1142
	bytesGrant        = 1626
	bytesKey          = 595
	bytesAudit        = 239
	bytesToolCall     = 597
	bytesRecentSignIn = 931
	// bytesSignIn is a rolled-up sign-in, kept forever: docs/benchmarks.md, analytics of a hundred million sign-ins.
	bytesSignIn = 324
	// bytesKnownClient is an estimate from the columns and the two indexes.
	bytesKnownClient = 200
)

const (
	mib = 1 << 20
	gb  = 1_000_000_000
	// serverCaches is what a server's bounded caches take at most: docs/capacity.md.
	serverCaches = 502 * mib
	// serverDocument is the resident memory of a server for one active resource: docs/benchmarks.md, start of a server
	// over 100,000 documents, 388 MiB with everything else.
	serverDocument = 388 * mib / 100_000
	// hashMemory is the memory of a password hash. A server runs one for each processor.
	hashMemory = 19 * mib
	// operatorBase and operatorDocument are the resident memory of an operator: docs/benchmarks.md, 93 MiB in the long
	// run, 149 MiB with 10,000 resources.
	operatorBase, operatorDocument = 93 * mib, (149 - 93) * mib / 10_000
	// reconcile is the time of one reconcile that changes nothing: docs/benchmarks.md, restart, 10,000 in 5.7 s.
	reconcile = 570 * time.Microsecond
	resync    = 10 * time.Minute
	// fsync: docs/benchmarks.md, the machine, p50.
	fsync = 190 * time.Microsecond
	// idlePolls is how many statements a second an idle server sends: two feeds each 250 ms, the outbox and the sign-out
	// messages once a second. pollCost: docs/benchmarks.md, Changes, when nothing changed.
	idlePolls, pollCost = 10, 56 * time.Microsecond
	// redisCall is processor time of Redis: docs/benchmarks.md, comparison with envoyproxy/ratelimit, asking for each.
	redisCall = 46 * time.Microsecond
	// fewestCalls is the share of the decisions of a busy key that call Redis: docs/benchmarks.md, calls to Redis for a
	// decision. leaseLasts is how long a lease may be spent, at most.
	fewestCalls, leaseLasts = 0.015, time.Second
	// keysCached is how many runtime keys a server caches: docs/capacity.md.
	keysCached = 150_000
	// connectionsOfProcess is in docs/operations.md.
	connectionsOfProcess = 21
)
