// Command fetch-k8s downloads etcd, kube-apiserver, kube-controller-manager and kubectl from a mirror, each only if its
// SHA-256 sum is in a file of sums. It reports and omits binaries that it cannot fetch; hack/build-k8s.sh compiles
// them.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"time"
)

// timeout bounds all downloads together.
const timeout = 15 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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
	flags := flag.NewFlagSet("fetch-k8s", flag.ContinueOnError)
	mirror := flags.String("mirror", "", "base address: the paths of the file of sums are below it")
	etcdMirror := flags.String("etcd-mirror", "", "base address of etcd alone (default: -mirror)")
	sums := flags.String("sums", "", "file of lines `SUM  PATH`")
	dir := flags.String("out", "", "folder that the binaries go to")
	kubernetes := flags.String("kubernetes", "", "version of Kubernetes, such as v1.36.3")
	etcd := flags.String("etcd", "", "version of etcd")
	if err := flags.Parse(args); err != nil {
		return err
	}
	base, err := parseMirror("-mirror", *mirror)
	if err != nil {
		return err
	}
	etcdBase, err := parseMirror("-etcd-mirror", cmp.Or(*etcdMirror, *mirror))
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(*sums)
	if err != nil {
		return err
	}
	known, err := parseSums(string(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", *sums, err)
	}
	_, _ = fmt.Fprintf(out, "Fetching Kubernetes %s and etcd %s from %s: about 250 MB, a minute on a fast line.\n", *kubernetes, *etcd, base.Redacted())
	for _, binary := range []struct {
		name, version string
		base          *url.URL
	}{
		{"kube-apiserver", *kubernetes, base}, {"kube-controller-manager", *kubernetes, base}, {"kubectl", *kubernetes, base}, {"etcd", *etcd, etcdBase},
	} {
		m := mirrorOf{base: binary.base, sums: known}
		if err := m.fetch(ctx, binary.name, binary.version, *dir); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			_, _ = fmt.Fprintf(out, "%s was not fetched: %v\n", binary.name, err)
		}
	}
	return nil
}

// parseMirror reads the base address of a mirror. The error does not repeat it: it may hold a password.
func parseMirror(flag, address string) (*url.URL, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("%s: must be an http or https URL, such as https://mirror.example/k8s", flag)
	}
	return base, nil
}
