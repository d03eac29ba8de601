package agents

import (
	"context"
	"crypto/sha256"
	"strconv"
	"sync"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/internal/shares"
)

// The most open streams of a principal, of a deployment, and of the server.
const (
	streamsOfPrincipal  = 16
	streamsOfDeployment = 250
	streamsOfServer     = 1000
	// fewStreams is how many streams a deployment can open of the last quarter.
	fewStreams = 16
	// checksOfDeployment is how many streams of a deployment are checked at the same time.
	checksOfDeployment = 2
)

// principal identifies a caller among those of all deployments, in a fixed number of bytes.
type principal [sha256.Size]byte

func principalOf(deployment string, c *caller.Caller) principal {
	return sha256.Sum256([]byte(deployment + "\x00" + c.Kind + "\x00" + strconv.FormatInt(c.User, 10) + "\x00" + c.ID))
}

// streams bound the open streams, and the work for them: a deployment has its own share of both.
type streams struct {
	// ended is done when the server ends: every stream is then ended.
	ended context.Context
	end   context.CancelFunc

	mu          sync.Mutex
	open        int
	principals  map[principal]int
	deployments map[string]*streamShare
	exhausted   uint64
}

// streamShare is a deployment's share of the streams.
type streamShare struct {
	open int
	// checks has an element for each stream that is checked at the moment.
	checks chan struct{}
}

func newStreams() *streams {
	s := &streams{principals: map[principal]int{}, deployments: map[string]*streamShare{}}
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// take takes a place for a stream, and returns a function that gives it back. It reports false if the principal, the
// deployment or the server has as many as it may have.
func (s *streams) take(deployment string, of principal) (share *streamShare, giveBack func(), taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share = s.deployments[deployment]
	if share == nil {
		share = &streamShare{checks: make(chan struct{}, checksOfDeployment)}
	}
	if s.open >= shares.WithoutReserve(streamsOfServer, share.open, fewStreams) || share.open >= streamsOfDeployment || s.principals[of] >= streamsOfPrincipal {
		s.exhausted++
		return nil, nil, false
	}
	s.open++
	s.principals[of]++
	share.open++
	s.deployments[deployment] = share
	return share, func() { s.giveBack(deployment, share, of) }, true
}

func (s *streams) giveBack(deployment string, share *streamShare, of principal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.principals[of]--; s.principals[of] == 0 {
		delete(s.principals, of)
	}
	if share.open--; share.open == 0 {
		delete(s.deployments, deployment)
	}
}

// Run ends the open streams when ctx ends, so that the server's listener can finish.
func (s *Server) Run(ctx context.Context) error {
	<-ctx.Done()
	s.streams.end()
	return nil
}

// Streams returns how many streams are open.
func (s *Server) Streams() int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return s.streams.open
}

// StreamsExhausted returns how many streams were refused.
func (s *Server) StreamsExhausted() uint64 {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return s.streams.exhausted
}
