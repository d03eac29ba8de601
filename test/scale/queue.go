package scale

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Job is a request in a simulation: its operation, and when it arrives.
type Job struct {
	operation *Operation
	arrives   float64 // seconds
	at        float64 // when it reaches the present stage, and then when it leaves it
}

// free are the times at which the processors of a stage are free.
type free []float64

func (f free) Len() int           { return len(f) }
func (f free) Less(i, j int) bool { return f[i] < f[j] }
func (f free) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }

// Push implements heap.Interface.
func (f *free) Push(x any) { *f = append(*f, x.(float64)) }

// Pop implements heap.Interface.
func (f *free) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// serve lets jobs, in the order in which they reach a stage, wait for one of its processors. It does not interrupt a
// job.
func serve(jobs []*Job, processors int, service func(*Job) float64) {
	at := make(free, processors)
	for _, job := range jobs {
		start := max(job.at, at[0])
		job.at = start + service(job)
		at[0] = job.at
		heap.Fix(&at, 0)
	}
}

// arrivals returns jobs that arrive independently of each other, at the given rates.
func arrivals(random *rand.Rand, rates []Rate, count int) []*Job {
	sum := 0.0
	for _, r := range rates {
		sum += r.PerSecond
	}
	jobs := make([]*Job, count)
	now := 0.0
	for i := range jobs {
		now += random.ExpFloat64() / sum
		of := random.Float64() * sum
		n := 0
		for ; n < len(rates)-1 && of >= rates[n].PerSecond; n++ {
			of -= rates[n].PerSecond
		}
		jobs[i] = &Job{operation: &rates[n].Operation, arrives: now, at: now}
	}
	return jobs
}

// exponential returns a service time with a mean. The time of a password hash is constant.
func exponential(random *rand.Rand, operation *Operation, mean time.Duration) float64 {
	if operation.Name == byPassword.Name {
		return mean.Seconds()
	}
	return random.ExpFloat64() * mean.Seconds()
}

// Latency is how long requests of an operation take at a utilization.
type Latency struct {
	P50, P99 time.Duration
}

// simulate returns the latencies of operations on the recommended install of a size, with the load at which the
// processors of its servers have a utilization. A request waits for a processor of its server, then for one of
// PostgreSQL, and then for its commits. It also returns the utilization of PostgreSQL's processors.
func simulate(n Need, utilization float64, count int, of ...Operation) (found []Latency, database float64) {
	random := rand.New(rand.NewPCG(23, 5))
	servers := n.Servers - n.Size.Spare
	factor := utilization / (n.ServerProcessors / float64(servers*n.Size.ProcessorsOfServer))
	var rates []Rate
	for _, r := range n.Size.rates(n.Servers) {
		rates = append(rates, Rate{r.Operation, r.PerSecond * factor})
	}
	jobs := arrivals(random, rates, count)
	byServer := make([][]*Job, servers)
	for _, job := range jobs {
		on := random.IntN(servers)
		byServer[on] = append(byServer[on], job)
	}
	for _, own := range byServer {
		serve(own, n.Size.ProcessorsOfServer, func(job *Job) float64 { return exponential(random, job.operation, job.operation.Server) })
	}
	var stored []*Job
	for _, job := range jobs {
		if job.operation.Database > 0 {
			stored = append(stored, job)
		}
	}
	slices.SortStableFunc(stored, func(a, b *Job) int { return compare(a.at, b.at) })
	serve(stored, n.DatabaseMachine, func(job *Job) float64 { return random.ExpFloat64() * job.operation.Database.Seconds() })
	for _, one := range of {
		found = append(found, latencyOf(jobs, one))
	}
	return found, n.DatabaseProcessors * factor / float64(n.DatabaseMachine)
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// latencyOf returns the latency of an operation's jobs after the first tenth of them, during which the queues fill.
func latencyOf(jobs []*Job, of Operation) Latency {
	var took []float64
	for _, job := range jobs[len(jobs)/10:] {
		if job.operation.Name == of.Name {
			took = append(took, job.at-job.arrives+float64(of.Commits)*fsync.Seconds())
		}
	}
	if len(took) == 0 {
		return Latency{}
	}
	slices.Sort(took)
	at := func(q float64) time.Duration {
		return time.Duration(took[int(q*float64(len(took)-1))] * float64(time.Second))
	}
	return Latency{P50: at(0.5), P99: at(0.99)}
}

// meanWait is the mean time in the queue of M/M/c, by Erlang's C formula: arrivals a second, mean service time and
// number of processors.
func meanWait(rate float64, service time.Duration, processors int) float64 {
	offered := rate * service.Seconds()
	c := float64(processors)
	if offered >= c {
		return math.Inf(1)
	}
	sum, term := 0.0, 1.0
	for k := range processors {
		sum += term
		term *= offered / float64(k+1)
	}
	term *= c / (c - offered)
	return term / (sum + term) / (c/service.Seconds() - rate)
}
