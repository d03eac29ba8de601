package chaos

import (
	"math/rand/v2"
	"time"
)

// The kinds of fault: kill -9 and a later start, SIGSTOP and a later SIGCONT, SIGTERM and a later start.
const (
	kill   = "kill"
	freeze = "freeze"
	stop   = "stop"
)

// strikable are the processes of an install, with the kinds of fault for each. PostgreSQL's backends run on while its
// postmaster is frozen, so a freeze stops all of them.
var strikable = []struct {
	name string
	does []string
}{
	{"operator-0", []string{kill, freeze, stop}}, {"operator-1", []string{kill, freeze, stop}},
	{"server-0", []string{kill, freeze, stop}}, {"server-1", []string{kill, freeze, stop}},
	{"kube-apiserver", []string{kill, freeze}}, {"etcd", []string{kill, freeze}},
	{"postgresql", []string{kill, freeze}}, {"redis", []string{kill, freeze}},
}

// blow is one fault: its kind, its target, when it begins after the start of the run, and how long it lasts.
type blow struct {
	target, does string
	at, lasts    time.Duration
}

// schedule draws faults for a length of time; a seed always draws the same ones. Several faults may overlap, and
// occasionally a fault of every target begins at once.
func schedule(seed uint64, length time.Duration) (blows []blow) {
	random := rand.New(rand.NewPCG(seed, 0))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64(most-least)))
	}
	for at := time.Duration(0); ; {
		if at += between(500*time.Millisecond, 5*time.Second); at > length {
			return blows
		}
		if random.IntN(25) == 0 { // everything at once
			for _, target := range strikable {
				blows = append(blows, blow{target.name, kill, at, between(500*time.Millisecond, 4*time.Second)})
			}
			continue
		}
		target := strikable[random.IntN(len(strikable))]
		blows = append(blows, blow{target.name, target.does[random.IntN(len(target.does))], at, between(300*time.Millisecond, 12*time.Second)})
	}
}

// of returns the faults for one target, in order.
func of(target string, blows []blow) (own []blow) {
	for _, b := range blows {
		if b.target == target {
			own = append(own, b)
		}
	}
	return own
}
