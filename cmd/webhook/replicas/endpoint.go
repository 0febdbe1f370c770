// Package replicas is how commands reach what replicas know: one of them at its metrics address, or the
// Redis that they share.
package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
)

// Bounds of one question to an endpoint. What a replica answers is far shorter.
const (
	timeout  = 10 * time.Second
	maxBytes = 16 << 20
)

// Endpoint is one replica, to be asked at its metrics address. The zero value is none.
type Endpoint struct {
	URL        string
	TokenFile  string
	CAFile     string
	SkipVerify bool
}

func (o *Endpoint) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.URL, "endpoint", o.URL, "metrics address of a replica to ask, as https://host:port or http://host:port, with a path if it is behind a proxy")
	f.StringVar(&o.TokenFile, "endpoint-token-file", o.TokenFile, "file with the bearer token for --endpoint, read for each question; needs https; empty for none")
	f.StringVar(&o.CAFile, "endpoint-ca-file", o.CAFile, "PEM file of the CAs that may sign the certificate of --endpoint, read for each question; empty for the system's")
	f.BoolVar(&o.SkipVerify, "endpoint-insecure-skip-tls-verify", o.SkipVerify, "whether to take any certificate of --endpoint; who is in between then reads the token")
}

// IsSet tells whether any of the flags was given.
func (o *Endpoint) IsSet() bool { return *o != Endpoint{} }

// validate reports every flag that is missing, wrong or contradicts another. It
// opens no file and connects nowhere.
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

// base is the address that paths are added to. No error prints it: it may hold
// a password that does not belong there.
func (o *Endpoint) base() (*url.URL, error) {
	u, err := url.Parse(o.URL)
	switch {
	case o.URL == "":
		return nil, errors.New("--endpoint: must be set")
	case err != nil:
		return nil, errors.New("--endpoint: is not a URL")
	case u.User != nil:
		return nil, errors.New("--endpoint: must have no user; a token belongs into --endpoint-token-file")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("--endpoint: must be https://host:port or http://host:port, with a path at most")
	}
	return u, nil
}

// Get asks for path, such as /busiest, with query, and puts the JSON it gets
// into what into points to. It takes 10 s at most and follows no redirection, so
// that a token goes nowhere else. The flags are valid.
func (o *Endpoint) Get(ctx context.Context, path string, query url.Values, into any) error {
	u, err := o.base()
	if err != nil {
		return err
	}
	u = u.JoinPath(path)
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	if o.TokenFile != "" {
		token, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return fmt.Errorf("--endpoint-token-file: %w", err)
		}
		one := strings.TrimSpace(string(token))
		if strings.ContainsFunc(one, unicode.IsSpace) || one == "" {
			return fmt.Errorf("--endpoint-token-file %s: must be one line", o.TokenFile)
		}
		request.Header.Set("Authorization", "Bearer "+one)
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return o.refused(response)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBytes)).Decode(into); err != nil {
		return fmt.Errorf("--endpoint: the answer to %s is not what a replica says: %w", path, err)
	}
	return nil
}
