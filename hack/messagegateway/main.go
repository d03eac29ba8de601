// Command messagegateway runs the stand-in for SMS providers and mail servers until Ctrl-C or SIGTERM. /_inbox lists
// the messages received, and PUT /_dns sets TXT records.
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

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
)

func main() {
	opts, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "messagegateway:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, opts, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "messagegateway:", err)
		os.Exit(1)
	}
}

func parse(arguments []string) (messagegateway.Options, error) {
	var o messagegateway.Options
	var numbers string
	flags := flag.NewFlagSet("messagegateway", flag.ExitOnError)
	flags.IntVar(&o.HTTPPort, "http-port", 8084, "port on 127.0.0.1 of the REST interface and the inbox; 0: any free one")
	flags.IntVar(&o.SMTPPort, "smtp-port", 8085, "port on 127.0.0.1 of the mail server; 0: any free one")
	flags.IntVar(&o.DNSPort, "dns-port", 8086, "port on 127.0.0.1 of the DNS server; 0: any free one")
	flags.StringVar(&o.AccountSID, "account-sid", messagegateway.DefaultAccountSID, "the account of the REST interface")
	flags.StringVar(&o.AuthToken, "auth-token", messagegateway.DefaultAuthToken, "its password")
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

func run(ctx context.Context, opts messagegateway.Options, out io.Writer) error {
	c, err := messagegateway.Start(opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "texts  %s (account %s)\nmails  smtp://%s\ninbox  %s/_inbox\nDNS    %s (PUT %s/_dns?name=NAME)\n", c.URL(), opts.AccountSID, c.SMTPAddress(), c.URL(), c.DNS().Address(), c.URL())
	<-ctx.Done()
	return c.Close()
}
