// Command carrier runs the stand-in for carriers of texts and mails until Ctrl-C or SIGTERM. What came is at /_inbox.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/cardea-iam/cardea/hack/carrier"
)

func main() {
	opts, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "carrier:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, opts, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "carrier:", err)
		os.Exit(1)
	}
}

func parse(arguments []string) (carrier.Options, error) {
	var o carrier.Options
	var numbers string
	flags := flag.NewFlagSet("carrier", flag.ExitOnError)
	flags.IntVar(&o.HTTPPort, "http-port", 8084, "port on 127.0.0.1 of the REST interface and the inbox; 0: any free one")
	flags.IntVar(&o.SMTPPort, "smtp-port", 8085, "port on 127.0.0.1 of the mail server; 0: any free one")
	flags.StringVar(&o.AccountSID, "account-sid", carrier.DefaultAccountSID, "the account of the REST interface")
	flags.StringVar(&o.AuthToken, "auth-token", carrier.DefaultAuthToken, "its password")
	flags.StringVar(&numbers, "numbers", "", "numbers the account may send from, with commas between them (default every one)")
	flags.StringVar(&o.SMTPUsername, "smtp-username", "", "user that the mail server asks for (default none)")
	flags.StringVar(&o.SMTPPassword, "smtp-password", "", "its password")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if numbers != "" {
		o.Numbers = strings.Split(numbers, ",")
	}
	return o, nil
}

func run(ctx context.Context, opts carrier.Options, out io.Writer) error {
	c, err := carrier.Start(opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "texts  %s (account %s)\nmails  smtp://%s\ninbox  %s/_inbox\n", c.URL(), opts.AccountSID, c.SMTPAddress(), c.URL())
	<-ctx.Done()
	return c.Close()
}
