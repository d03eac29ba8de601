// Command fetch-k8s downloads etcd, kube-apiserver, kube-controller-manager and kubectl from a mirror, each only if its
// SHA-256 sum is in a file of sums. It reports and omits binaries that it cannot fetch; hack/build-k8s.sh compiles
// them. With -print-sums, it prints lines for the file of sums instead.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cardea-iam/cardea/hack/progress"
)

const (
	// timeout bounds all downloads together.
	timeout = 15 * time.Minute
	// pins is the file with the versions, from the repository's root.
	pins = "hack/k8s/go.mod"
)

// binary is a program of the control plane. Its base is the address of its mirror, or nil without a mirror.
type binary struct {
	name, version string
	base          *url.URL
}

// options are the flags.
type options struct {
	mirror, etcdMirror, kubernetes, etcd string
	sums, dir, platform                  string
	printSums                            bool
	// answer and stall are answerWithin and stallWithin, shorter in tests.
	answer, stall time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch-k8s:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	binaries, err := o.binaries()
	if err != nil {
		return err
	}
	if !o.printSums {
		return o.fetch(ctx, out, binaries)
	}
	if o.mirror == "" {
		return printFolder(out, o.dir, o.platform, binaries)
	}
	for _, b := range binaries {
		if err := o.mirrorOf(b, nil).printPublished(ctx, out, b); err != nil {
			return err
		}
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("fetch-k8s", flag.ContinueOnError)
	flags.StringVar(&o.mirror, "mirror", "", "base address: the paths of the file of sums are below it")
	flags.StringVar(&o.etcdMirror, "etcd-mirror", "", "base address of etcd alone (default: -mirror)")
	flags.StringVar(&o.sums, "sums", "hack/k8s/sums.txt", "file of lines `SUM  PATH`")
	flags.StringVar(&o.dir, "out", "bin/k8s", "folder that the binaries go to")
	flags.StringVar(&o.kubernetes, "kubernetes", "", "version of Kubernetes, such as v1.36.3 (default: that of "+pins+")")
	flags.StringVar(&o.etcd, "etcd", "", "version of etcd (default: that of "+pins+")")
	flags.StringVar(&o.platform, "platform", runtime.GOOS+"/"+runtime.GOARCH, "operating system and architecture, such as linux/arm64")
	flags.BoolVar(&o.printSums, "print-sums", false, "print lines for the file of sums: of the files at -mirror, or, without -mirror, of those in -out")
	flags.DurationVar(&o.answer, "answer-within", answerWithin, "time to connect, and then to receive the header of a response")
	flags.DurationVar(&o.stall, "stall-within", stallWithin, "time in which a download must receive something")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.mirror == "" && !o.printSums {
		return o, errors.New("-mirror is missing")
	}
	return o, nil
}

// binaries returns the programs with their versions and mirrors.
func (o options) binaries() ([]binary, error) {
	base, err := parseMirror("-mirror", o.mirror)
	if err != nil {
		return nil, err
	}
	etcdBase, err := parseMirror("-etcd-mirror", cmp.Or(o.etcdMirror, o.mirror))
	if err != nil {
		return nil, err
	}
	kubernetes, etcd := o.kubernetes, o.etcd
	if kubernetes == "" || etcd == "" {
		text, err := os.ReadFile(pins)
		if err != nil {
			return nil, fmt.Errorf("%w; run it from the repository's root, or set -kubernetes and -etcd", err)
		}
		kubernetes = cmp.Or(kubernetes, pinned(string(text), "k8s.io/kubernetes"))
		etcd = cmp.Or(etcd, pinned(string(text), "go.etcd.io/etcd/server/v3"))
	}
	return []binary{
		{"kube-apiserver", kubernetes, base}, {"kube-controller-manager", kubernetes, base}, {"kubectl", kubernetes, base}, {"etcd", etcd, etcdBase},
	}, nil
}

// pinned returns the version of a module in a go.mod, or "".
func pinned(goMod, module string) string {
	found := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` (v\S+)`).FindStringSubmatch(goMod)
	if found == nil {
		return ""
	}
	return found[1]
}

// parseMirror reads the base address of a mirror; an empty one is nil. The error does not repeat the address: it may
// hold a password.
func parseMirror(flag, address string) (*url.URL, error) {
	if address == "" {
		return nil, nil
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("%s: must be an http or https URL, such as https://mirror.example/k8s", flag)
	}
	return base, nil
}

func (o options) mirrorOf(b binary, sums map[string][]string) mirror {
	return mirror{base: b.base, sums: sums, platform: o.platform, client: newClient(o.answer), stall: o.stall}
}

// fetch downloads the binaries concurrently, so that a mirror that does not answer costs its time limit once.
func (o options) fetch(ctx context.Context, out io.Writer, binaries []binary) error {
	raw, err := os.ReadFile(o.sums)
	if err != nil {
		return err
	}
	known, err := parseSums(string(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", o.sums, err)
	}
	steps := progress.New(out, os.Getenv(progress.StartVariable), time.Now)
	steps.Print("fetching Kubernetes %s and etcd %s from %s: about 290 MB", binaries[0].version, binaries[3].version, binaries[0].base.Redacted())
	var downloads sync.WaitGroup
	for _, b := range binaries {
		downloads.Go(func() {
			size, err := o.mirrorOf(b, known).fetch(ctx, b.name, b.version, o.dir)
			switch {
			case ctx.Err() != nil: // reported once, below
			case err != nil:
				steps.Print("%s is not fetched: %s", b.name, strings.ReplaceAll(err.Error(), "\n", "; "))
			default:
				steps.Print("fetched %s: %d MB, SHA-256 sum verified", b.name, size/1_000_000)
			}
		})
	}
	downloads.Wait()
	return ctx.Err()
}
