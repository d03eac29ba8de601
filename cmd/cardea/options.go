package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/agents"
	"github.com/cardea-iam/cardea/apiserver/credential"
	limiter "github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/limits/shared"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
)

// fromEnvironment sets every flag that is not on the command line from CARDEA_<NAME>, with dashes as underscores.
func fromEnvironment(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var faults []error
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		name := "CARDEA_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if value, found := lookup(name); found && !flag.Changed && value != "" {
			if err := flag.Value.Set(value); err != nil {
				// The error omits the value, which may be a secret, such as a store's password.
				faults = append(faults, fmt.Errorf("%s in the environment is not a value of --%s", name, flag.Name))
			}
		}
	})
	return errors.Join(faults...)
}

// commonOptions are the flags of every long-running command.
type commonOptions struct {
	kubeconfig     string
	store          string
	logLevel       string
	metricsAddress string
	pprofAddress   string
}

func (o *commonOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; absent: the in-cluster configuration")
	registerStore(flags, &o.store)
	flags.StringVar(&o.logLevel, "log-level", "info", "least severe level logged: debug, info, warn, error")
	flags.StringVar(&o.metricsAddress, "metrics-address", ":8090", "address of /metrics, /healthz and /readyz")
	flags.StringVar(&o.pprofAddress, "pprof-address", "", "address of /debug/pprof/, such as 127.0.0.1:6060: profiles of this process, for every client that reaches it; absent: none")
}

func registerStore(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "store", "", "runtime store: postgres://..., or sqlite:///path for standalone (pass a URL with a password as CARDEA_STORE)")
}

// rootKeyOptions are the flags of commands that seal or open values.
type rootKeyOptions struct{ files []string }

func (o *rootKeyOptions) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.files, "root-key", nil, "files with root keys, 32 bytes or base64; the first one seals; absent: deployments can neither sign nor read values from Secrets")
}

func (o *rootKeyOptions) keyring() (*seal.Keyring, error) {
	keyring, err := seal.Load(o.files)
	if err != nil {
		return nil, fmt.Errorf("--root-key: %w", err)
	}
	return keyring, nil
}

// operatorOptions are the flags of commands that reconcile.
type operatorOptions struct {
	resync            time.Duration
	workers           int
	requireHostGrants bool
	limits            engine.Limits
	frontendURL       string
}

func (o *operatorOptions) register(flags *pflag.FlagSet) {
	flags.DurationVar(&o.resync, "resync", 10*time.Minute, "time between two reconciles of an unchanged resource, before jitter")
	flags.IntVar(&o.workers, "workers", 16, "concurrent reconciles of one kind")
	flags.BoolVar(&o.requireHostGrants, "require-host-grants", false,
		"refuse frontend hosts that the namespace's annotation iam.cardea.dev/allowed-hosts does not list (needs ClusterRole cardea-operator-host-grants)")
	flags.Int64Var(&o.limits.Documents, "max-deployment-documents", 20_000,
		"how many resources of a deployment may be active; a namespace may have twice as many; 0: unbounded")
	flags.Int64Var(&o.limits.Bytes, "max-deployment-bytes", 16<<20,
		"bytes that the resources of a deployment may take in the store; each server needs two to three times as much; a namespace may have twice as much; 0: unbounded")
	flags.StringVar(&o.frontendURL, "frontend-url", "",
		"URL of frontend hosts of Staging deployments on this machine, such as http://localhost:8081: scheme and port of their OAuth issuers; absent: https without a port")
}

func (o *operatorOptions) validate() error {
	if o.resync < time.Second {
		return fmt.Errorf("--resync is %s: give at least 1s", o.resync)
	}
	if o.workers < 1 {
		return fmt.Errorf("--workers is %d: give at least 1", o.workers)
	}
	if o.limits.Documents < 0 || o.limits.Bytes < 0 {
		return errors.New("--max-deployment-documents and --max-deployment-bytes: give a positive number, or 0 for no bound")
	}
	_, err := o.localFrontend()
	return err
}

// localFrontend reads --frontend-url.
func (o *operatorOptions) localFrontend() (local translation.LocalFrontend, err error) {
	if o.frontendURL == "" {
		return local, nil
	}
	u, err := url.Parse(o.frontendURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() != "localhost" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return local, fmt.Errorf("--frontend-url is %q: give scheme, localhost and a port, such as http://localhost:8081", o.frontendURL)
	}
	return translation.LocalFrontend{Scheme: u.Scheme, Port: u.Port()}, nil
}

// serverOptions are the flags of commands that serve.
type serverOptions struct {
	backendAddress    string
	frontendAddress   string
	decisionAddress   string
	envoyAddress      string
	limiterMemory     int64
	redis             string
	replicas          int
	decisionLog       string
	decisionShare     float64
	trustedProxies    []string
	egressAllowed     []string
	egressDenied      []string
	maxStaleness      time.Duration
	anyDeployment     bool
	auditRetention    time.Duration
	callRetention     time.Duration
	eventRetention    time.Duration
	deliveryRetention time.Duration
	toolCalls         int
	dnsResolver       string
	tlsCert           string
	tlsKey            string
}

func (o *serverOptions) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.backendAddress, "backend-address", ":8080", "address of the backend API")
	flags.StringVar(&o.frontendAddress, "frontend-address", ":8081", "address of the end-user API")
	flags.StringVar(&o.decisionAddress, "decision-address", ":8082", "address of the decision API")
	flags.StringVar(&o.envoyAddress, "envoy-address", ":8083", "address of the decisions for Envoy (ext_authz over gRPC); empty: none")
	flags.Int64Var(&o.limiterMemory, "limiter-memory", limiter.DefaultMaxBytes, "bytes that the counters of rate limits may take")
	flags.StringVar(&o.redis, "redis", "", "redis:// or rediss:// URL through which replicas share the counters of rate limits (pass a URL with a password as CARDEA_REDIS); absent: each server counts for itself")
	flags.IntVar(&o.replicas, "replicas", 1, "number of servers among which a limit is divided until Redis is reached")
	flags.StringVar(&o.decisionLog, "decision-log", "", "file to which a sample of the decisions is appended as JSON Lines, - for standard output; absent: none")
	flags.Float64Var(&o.decisionShare, "decision-log-share", 0.01, "share of the decisions in --decision-log, above 0 and up to 1")
	flags.StringSliceVar(&o.trustedProxies, "trusted-proxies", nil, "CIDRs of proxies whose X-Forwarded-For is trusted; absent: none")
	flags.StringSliceVar(&o.egressAllowed, "egress-allowed-cidrs", nil, "private CIDRs to which the server connects for tenants: token issuers, SMS providers, webhooks, mail servers, tools of agents, identity providers; absent: none")
	flags.StringSliceVar(&o.egressDenied, "egress-denied-cidrs", nil, "CIDRs to which the server never connects for tenants, even if public or allowed; absent: only internal addresses of clouds")
	flags.DurationVar(&o.maxStaleness, "max-staleness", 0, "respond 503 to authenticated requests if the store was unreachable for longer; 0: never")
	flags.BoolVar(&o.anyDeployment, "decisions-of-any-deployment", false, "respond to decision requests that name no deployment even if several are served: a gateway that names none then accepts the credentials of every deployment")
	flags.DurationVar(&o.auditRetention, "audit-retention", apiserver.DefaultAuditRetention, "how long audit records are kept, from 24h to 87600h; if servers differ, the shortest counts")
	flags.IntVar(&o.toolCalls, "max-tool-calls", agents.DefaultToolCalls, "how many calls of agents' tools this server runs at the same time, from 1 to 10000; a deployment has 128 of them")
	flags.DurationVar(&o.callRetention, "tool-call-retention", apiserver.DefaultToolCallRetention, "how long records of calls of agents' tools are kept, from 24h to 87600h; if servers differ, the shortest counts")
	flags.DurationVar(&o.eventRetention, "event-retention", apiserver.DefaultEventRetention, "how long events are kept, from 24h to 8760h; if servers differ, the shortest counts")
	flags.DurationVar(&o.deliveryRetention, "delivery-retention", apiserver.DefaultDeliveryRetention, "how long records of webhooks are kept, from 1h to 8760h; if servers differ, the shortest counts")
	flags.StringVar(&o.dnsResolver, "dns-resolver", "", "host:port of the recursive DNS server that looks the records of organizations' domains up; absent: those of the system")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "certificate file; absent: TLS ends at the ingress")
	flags.StringVar(&o.tlsKey, "tls-key", "", "private key file of --tls-cert")
}

// checkResolver validates --dns-resolver.
func (o *serverOptions) checkResolver() error {
	if o.dnsResolver == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(o.dnsResolver)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || portErr != nil {
		return fmt.Errorf("--dns-resolver is %q: give host:port, such as 192.0.2.53:53", o.dnsResolver)
	}
	return nil
}

// day is always 24 hours, also when daylight saving time begins or ends.
const day = 24 * time.Hour

// minLimiterMemory is enough for some ten thousand counters, in bytes.
const minLimiterMemory = 8 << 20

// ranges are the parsed address ranges of serverOptions.
type ranges struct{ trusted, egressAllowed, egressDenied credential.Proxies }

func (o *serverOptions) validate() (ranges, error) {
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return ranges{}, errors.New("--tls-cert and --tls-key go together: give both or neither")
	}
	if o.maxStaleness < 0 {
		return ranges{}, fmt.Errorf("--max-staleness is %s: give 0 or more", o.maxStaleness)
	}
	if o.auditRetention < day || o.auditRetention > 3650*day {
		return ranges{}, fmt.Errorf("--audit-retention is %s: give 24h to 87600h, such as 9600h for 400 days", o.auditRetention)
	}
	if o.toolCalls < 1 || o.toolCalls > 10_000 {
		return ranges{}, fmt.Errorf("--max-tool-calls is %d: give 1 to 10000", o.toolCalls)
	}
	if o.callRetention < day || o.callRetention > 3650*day {
		return ranges{}, fmt.Errorf("--tool-call-retention is %s: give 24h to 87600h, such as 2160h for 90 days", o.callRetention)
	}
	if o.eventRetention < day || o.eventRetention > 365*day {
		return ranges{}, fmt.Errorf("--event-retention is %s: give 24h to 8760h, such as 720h for 30 days", o.eventRetention)
	}
	if o.deliveryRetention < time.Hour || o.deliveryRetention > 8760*time.Hour {
		return ranges{}, fmt.Errorf("--delivery-retention is %s: give 1h to 8760h, such as 168h for a week", o.deliveryRetention)
	}
	if o.limiterMemory < minLimiterMemory {
		return ranges{}, fmt.Errorf("--limiter-memory is %d: give at least %d", o.limiterMemory, minLimiterMemory)
	}
	if o.replicas < 1 {
		return ranges{}, fmt.Errorf("--replicas is %d: give at least 1", o.replicas)
	}
	if o.redis != "" && shared.CheckURL(o.redis) != nil { // the error may contain a password
		return ranges{}, errors.New("--redis must be a URL of the form redis://host:port, rediss://host:port or unix:///path")
	}
	if err := o.checkResolver(); err != nil {
		return ranges{}, err
	}
	if o.decisionShare <= 0 || o.decisionShare > 1 {
		return ranges{}, fmt.Errorf("--decision-log-share is %v: give a number above 0 and up to 1", o.decisionShare)
	}
	var read ranges
	for _, list := range []struct {
		flag string
		from []string
		to   *credential.Proxies
	}{
		{"--trusted-proxies", o.trustedProxies, &read.trusted}, {"--egress-allowed-cidrs", o.egressAllowed, &read.egressAllowed},
		{"--egress-denied-cidrs", o.egressDenied, &read.egressDenied},
	} {
		var err error
		if *list.to, err = credential.ParseProxies(list.from); err != nil {
			return ranges{}, fmt.Errorf("%s: %w", list.flag, err)
		}
	}
	return read, nil
}
