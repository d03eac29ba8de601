package controlplane

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Ports are taken below the range from which systems give local ports to outgoing connections (32768 on Linux): a
// stopped API server's port must still be free when it starts again.
const lowestPort, ports = 20000, 12000

// FreePort returns an unused port on 127.0.0.1, other than those in taken. The port is not reserved.
func FreePort(taken ...int) (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(ports)
		if !slices.Contains(taken, port) && PortIsFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// PortIsFree reports whether a process could listen on 127.0.0.1:port now.
func PortIsFree(port int) bool {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func choosePorts(options *Options) (err error) {
	if options.EtcdPort == 0 {
		if options.EtcdPort, err = FreePort(options.APIServerPort); err != nil {
			return err
		}
	}
	if options.APIServerPort == 0 {
		options.APIServerPort, err = FreePort(options.EtcdPort)
	}
	return err
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
