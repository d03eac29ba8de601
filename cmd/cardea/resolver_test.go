package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestDNSResolverIsAHostWithAPort(t *testing.T) {
	t.Parallel()
	for resolver, valid := range map[string]bool{
		"": true, "192.0.2.53:53": true, "[2001:db8::53]:53": true, "dns.acme.example:5353": true,
		"192.0.2.53": false, ":53": false, "192.0.2.53:": false, "192.0.2.53:dns": false, "192.0.2.53:65536": false, "2001:db8::53": false,
	} {
		var o serverOptions
		flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
		o.register(flags)
		if err := flags.Parse([]string{"--dns-resolver=" + resolver}); err != nil {
			t.Fatal(err)
		}
		if _, err := o.validate(); (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "--dns-resolver") {
			t.Errorf("--dns-resolver=%s: %v", resolver, err)
		}
	}
}
