package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

// ports are the ports of a run on 127.0.0.1. They are stored in the run's folder, so that URLs and kubeconfigs stay
// valid from one start to the next.
type ports struct {
	APIServer       int `json:"apiServer"`
	Etcd            int `json:"etcd"`
	Backend         int `json:"backend"`
	Frontend        int `json:"frontend"`
	Decision        int `json:"decision"`
	Envoy           int `json:"envoy"`
	Metrics         int `json:"metrics"`
	OperatorMetrics int `json:"operatorMetrics"`
	CarrierHTTP     int `json:"carrierHTTP"`
	CarrierSMTP     int `json:"carrierSMTP"`
	CarrierDNS      int `json:"carrierDNS"`
}

// preferred are the ports of a first start, if they are free: Cardea's documented ports, and for the message gateway
// stand-in the ports that the samples name.
var preferred = ports{
	APIServer: 26443, Etcd: 22379,
	Backend: 8080, Frontend: 8081, Decision: 8082, Envoy: 8083, Metrics: 8090, OperatorMetrics: 8091,
	CarrierHTTP: 8084, CarrierSMTP: 8085, CarrierDNS: 8086,
}

// choosePorts returns the ports stored in file, and stores the result there. It replaces each port for which take
// returns false.
func choosePorts(file string, take func(int) bool) (ports, error) {
	p := preferred
	// An unreadable file is treated like a missing one, because ports can be chosen again.
	if content, err := os.ReadFile(file); err == nil {
		_ = json.Unmarshal(content, &p)
	}
	var passed []int
	for _, port := range []*int{
		&p.APIServer, &p.Etcd, &p.Backend, &p.Frontend, &p.Decision, &p.Envoy, &p.Metrics, &p.OperatorMetrics, &p.CarrierHTTP, &p.CarrierSMTP, &p.CarrierDNS,
	} {
		passed = append(passed, *port)
		for !take(*port) {
			another, err := controlplane.FreePort(passed...)
			if err != nil {
				return ports{}, err
			}
			*port = another
			passed = append(passed, another)
		}
	}
	content, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return ports{}, err
	}
	return p, os.WriteFile(file, append(content, '\n'), 0o600)
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
