// Package dnsserver is a DNS server with TXT records and addresses that tests and the local run set. It answers like a
// recursive server, on UDP and TCP of one port on loopback.
package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// maxString is the maximum length of a string of a TXT record, in bytes (RFC 1035 3.3).
	maxString = 255
	// maxUDP is the maximum size of an answer on UDP, in bytes: larger ones are truncated.
	maxUDP = 1232
	// maxAliases bounds a chain of CNAME records.
	maxAliases = 8
	// tcpWithin bounds a connection.
	tcpWithin = 10 * time.Second
)

// Behavior is how the server answers queries of a name.
type Behavior int

// The behaviors.
const (
	// Answers is the default: the records, or NXDOMAIN.
	Answers Behavior = iota
	// Fails answers SERVFAIL.
	Fails
	// Refuses answers REFUSED.
	Refuses
	// Silent does not answer.
	Silent
)

// entry is what a name has.
type entry struct {
	// records are TXT records, each with its strings.
	records  [][]string
	alias    string
	behavior Behavior
	// turns are the addresses: each query of A gets the next list.
	turns   [][]netip.Addr
	lookUps int
}

// Server is a running DNS server.
type Server struct {
	udp     net.PacketConn
	tcp     net.Listener
	serving sync.WaitGroup

	mu      sync.Mutex
	names   map[string]entry
	queries map[string]int
}

// Start returns a Server that listens on a port of 127.0.0.1; 0: any free one.
func Start(port int) (*Server, error) {
	s := &Server{names: map[string]entry{}, queries: map[string]int{}}
	for range 10 { // a port that is free on UDP may be taken on TCP
		var err error
		if s.udp, err = net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
			return nil, err
		}
		if s.tcp, err = net.Listen("tcp", s.udp.LocalAddr().String()); err == nil {
			s.serving.Go(s.serveUDP)
			s.serving.Go(s.serveTCP)
			return s, nil
		}
		if closing := s.udp.Close(); port != 0 || closing != nil {
			return nil, errors.Join(err, closing)
		}
	}
	return nil, errors.New("no port is free on UDP and TCP")
}

// Address is the host:port of the server.
func (s *Server) Address() string { return s.udp.LocalAddr().String() }

// Port is the port of the server on 127.0.0.1.
func (s *Server) Port() int { return s.udp.LocalAddr().(*net.UDPAddr).Port }

// Close stops the server.
func (s *Server) Close() error {
	err := errors.Join(s.udp.Close(), s.tcp.Close())
	s.serving.Wait()
	return err
}

// Set sets the TXT records of a name to texts. Without texts, the name does not exist.
func (s *Server) Set(name string, texts ...string) {
	var records [][]string
	for _, text := range texts {
		records = append(records, split(text))
	}
	s.change(name, func(e *entry) { e.records = records })
}

// SetStrings gives a name one TXT record of several strings.
func (s *Server) SetStrings(name string, parts ...string) {
	s.change(name, func(e *entry) { e.records = [][]string{parts} })
}

// Alias gives a name a CNAME record, "" for none.
func (s *Server) Alias(name, target string) {
	s.change(name, func(e *entry) { e.alias = fold(target) })
}

// Point sets the addresses of a name. The n-th look-up gets the n-th list, and the lists repeat. Without lists, the
// name has no address.
func (s *Server) Point(name string, turns ...[]netip.Addr) {
	s.change(name, func(e *entry) { e.turns, e.lookUps = turns, 0 })
}

// LookUps returns how many queries for the IPv4 addresses of a name the server received since Point.
func (s *Server) LookUps(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[fold(name)].lookUps
}

// Resolver returns a resolver that asks this server alone.
func (s *Server) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.Address())
	}}
}

// Behave sets how the server answers queries of a name.
func (s *Server) Behave(name string, b Behavior) { s.change(name, func(e *entry) { e.behavior = b }) }

// Queries returns how many queries of a name the server received.
func (s *Server) Queries(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[fold(name)]
}

func (s *Server) change(name string, change func(*entry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.names[fold(name)]
	change(&e)
	s.names[fold(name)] = e
}

// fold returns a name in lower case, without the dot at its end.
func fold(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// split returns the strings of a text.
func split(text string) (parts []string) {
	for len(text) > maxString {
		parts, text = append(parts, text[:maxString]), text[maxString:]
	}
	return append(parts, text)
}

func (s *Server) serveUDP() {
	buffer := make([]byte, 64<<10)
	for {
		n, from, err := s.udp.ReadFrom(buffer)
		if err != nil {
			return
		}
		if answer := s.answer(buffer[:n], maxUDP); answer != nil {
			_, _ = s.udp.WriteTo(answer, from)
		}
	}
}

func (s *Server) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return
		}
		s.serving.Go(func() {
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(tcpWithin))
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, query); err != nil {
				return
			}
			if answer := s.answer(query, 1<<16-1); answer != nil {
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
		})
	}
}

// answer returns the answer to a query, nil for none. An answer above most bytes is truncated.
func (s *Server) answer(raw []byte, most int) []byte {
	var query dnsmessage.Message
	if query.Unpack(raw) != nil || query.Response || len(query.Questions) != 1 {
		return nil
	}
	asked := query.Questions[0]
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionDesired: query.RecursionDesired, RecursionAvailable: true},
		Questions: query.Questions,
	}
	if !s.resolve(&reply, asked) {
		return nil
	}
	packed, err := reply.Pack()
	if err == nil && len(packed) > most {
		reply.Answers, reply.Truncated = nil, true
		packed, err = reply.Pack()
	}
	if err != nil {
		return nil
	}
	return packed
}

// resolve fills a reply, and reports whether the server answers.
func (s *Server) resolve(reply *dnsmessage.Message, asked dnsmessage.Question) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fold(asked.Name.String())
	s.queries[name]++
	for range maxAliases {
		e := s.names[name]
		owner, err := dnsmessage.NewName(name + ".")
		if err != nil {
			reply.RCode = dnsmessage.RCodeFormatError
			return true
		}
		header := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET, TTL: 1}
		switch {
		case e.behavior == Silent:
			return false
		case e.behavior == Fails:
			reply.RCode = dnsmessage.RCodeServerFailure
			return true
		case e.behavior == Refuses:
			reply.RCode = dnsmessage.RCodeRefused
			return true
		case e.alias != "":
			target, err := dnsmessage.NewName(e.alias + ".")
			if err != nil {
				reply.RCode = dnsmessage.RCodeServerFailure
				return true
			}
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: target}})
			name = e.alias
			continue
		case len(e.records) == 0 && len(e.turns) == 0:
			reply.RCode = dnsmessage.RCodeNameError
			return true
		}
		if len(e.turns) > 0 {
			reply.Answers = append(reply.Answers, addresses(e.turns[e.lookUps%len(e.turns)], header, asked.Type)...)
			if asked.Type == dnsmessage.TypeA {
				e.lookUps++
				s.names[name] = e
			}
		}
		if asked.Type == dnsmessage.TypeTXT {
			for _, parts := range e.records {
				reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.TXTResource{TXT: parts}})
			}
		}
		return true
	}
	reply.RCode = dnsmessage.RCodeServerFailure
	return true
}

// addresses returns the records of a type with addresses.
func addresses(all []netip.Addr, header dnsmessage.ResourceHeader, of dnsmessage.Type) (records []dnsmessage.Resource) {
	for _, address := range all {
		switch {
		case address.Is4() && of == dnsmessage.TypeA:
			records = append(records, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: address.As4()}})
		case address.Is6() && of == dnsmessage.TypeAAAA:
			records = append(records, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: address.As16()}})
		}
	}
	return records
}
