// Command webhookreceiver runs a receiver of webhooks until Ctrl-C or SIGTERM. It verifies the signatures with the keys
// of --keys or SIGNING_SECRET, lists the last requests, and fails as the query of the endpoint's URL says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/webhookreceiver"
)

type options struct {
	port int
	keys []string
}

func main() {
	opts, err := parse(os.Args[1:], os.Getenv("SIGNING_SECRET"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "webhookreceiver:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, opts, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "webhookreceiver:", err)
		os.Exit(1)
	}
}

// parse reads the arguments. The variable is the value of SIGNING_SECRET.
func parse(arguments []string, variable string) (options, error) {
	var o options
	var keys string
	flags := flag.NewFlagSet("webhookreceiver", flag.ExitOnError)
	flags.IntVar(&o.port, "port", 8087, "port on 127.0.0.1; 0: any free one")
	flags.StringVar(&keys, "keys", "", "secrets (whsec_...) and public keys (whpk_...) that verify signatures, with commas between them (default $SIGNING_SECRET)")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if keys == "" {
		keys = variable
	}
	if keys == "" {
		return o, errors.New("give the endpoint's secret: --keys=whsec_..., or SIGNING_SECRET")
	}
	o.keys = strings.Split(keys, ",")
	return o, nil
}

func run(ctx context.Context, opts options, out io.Writer) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", opts.port))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(webhookreceiver.Path, webhookreceiver.New(webhookreceiver.Options{Keys: webhookreceiver.Static(opts.keys...)}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Fprintf(out, "webhooks  POST http://%[1]s%[2]s, with ?fault=500, ?fault=hang and so on\ninbox     GET http://%[1]s%[2]s\n", listener.Addr(), webhookreceiver.Path)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
