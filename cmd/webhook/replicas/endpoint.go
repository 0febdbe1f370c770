package replicas

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Endpoint is one replica, to be asked at its metrics address. The zero value is none.
type Endpoint struct {
	URL        string
	TokenFile  string
	CAFile     string
	SkipVerify bool
}

func (o *Endpoint) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.URL, "endpoint", o.URL, "metrics address of a replica to ask instead of one that the cluster has, as https://host:port or http://host:port, with a path if it is behind a proxy")
	f.StringVar(&o.TokenFile, "endpoint-token-file", o.TokenFile, "file with the bearer token for --endpoint, reread each minute; needs https; empty for none")
	f.StringVar(&o.CAFile, "endpoint-ca-file", o.CAFile, "PEM file of the CAs that may sign the certificate of --endpoint, reread while the command runs; empty for the system's")
	f.BoolVar(&o.SkipVerify, "endpoint-insecure-skip-tls-verify", o.SkipVerify, "whether to accept any certificate of --endpoint; anyone in between can then read the token")
}

func (o *Endpoint) validate() error {
	u, err := o.base()
	if err != nil {
		return err
	}
	var errs []error
	check := func(ok bool, message string) {
		if !ok {
			errs = append(errs, errors.New(message))
		}
	}
	check(u.Scheme == "https" || o.TokenFile == "", "--endpoint-token-file: needs --endpoint with https")
	check(u.Scheme == "https" || o.CAFile == "", "--endpoint-ca-file: needs --endpoint with https")
	check(u.Scheme == "https" || !o.SkipVerify, "--endpoint-insecure-skip-tls-verify: needs --endpoint with https")
	check(o.CAFile == "" || !o.SkipVerify, "--endpoint-ca-file: must not be set with --endpoint-insecure-skip-tls-verify")
	return errors.Join(errs...)
}

// base is the address that paths are added to. No error prints it: it may hold a password that does not belong
// there.
func (o *Endpoint) base() (*url.URL, error) {
	u, err := url.Parse(o.URL)
	switch {
	case o.URL == "":
		return nil, errors.New("--endpoint: must be set")
	case err != nil:
		return nil, errors.New("--endpoint: is not a URL")
	case u.User != nil:
		return nil, errors.New("--endpoint: must have no user; a token belongs in --endpoint-token-file")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("--endpoint: must be https://host:port or http://host:port, with a path at most")
	}
	return u, nil
}

func (o *Endpoint) open() (*Replica, error) {
	u, err := o.base()
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(&rest.Config{ // which rereads the files
		BearerTokenFile: o.TokenFile,
		TLSClientConfig: rest.TLSClientConfig{CAFile: o.CAFile, Insecure: o.SkipVerify},
	})
	if err != nil {
		return nil, fmt.Errorf("--endpoint: %w", err)
	}
	return &Replica{name: "--endpoint", url: u, transport: transport, Close: func() { net.CloseIdleConnectionsFor(transport) }}, nil
}
