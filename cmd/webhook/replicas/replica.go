// Package replicas is how commands ask replicas: one of them answers for all that share its Redis.
package replicas

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
)

// Bounds of one question to a replica. What it answers is far shorter.
const (
	timeout  = 10 * time.Second
	maxBytes = 16 << 20
)

// Options are the flags that say where to ask: the cluster of a kubeconfig, or one replica. Make them with
// NewOptions.
type Options struct {
	Endpoint Endpoint
	Cluster  *apiserver.Flags
}

// NewOptions stand for the user's own cluster.
func NewOptions() Options { return Options{Cluster: apiserver.NewFlags()} }

// AddFlags adds them to f, with --namespace if they are for a command that looks into one.
func (o *Options) AddFlags(f *pflag.FlagSet, namespaced bool) {
	o.Cluster.AddFlags(f, namespaced)
	o.Endpoint.addFlags(f)
}

// Validate reports every flag that is missing, wrong or contradicts another. It opens no file and connects nowhere.
func (o *Options) Validate() error {
	if o.Endpoint == (Endpoint{}) {
		return nil
	}
	return o.Endpoint.validate()
}

// Open finds a replica to ask. The flags are valid.
func (o *Options) Open(ctx context.Context, userAgent string) (*Replica, error) {
	if o.Endpoint != (Endpoint{}) {
		return o.Endpoint.open()
	}
	config, _, err := o.Cluster.Config(userAgent)
	if err != nil {
		return nil, err
	}
	return find(ctx, config)
}

// Replica is one that can be asked. It is for one goroutine at a time.
type Replica struct {
	name      string // in errors
	url       *url.URL
	transport http.RoundTripper
	// token is asked for the bearer token of each request; nil where transport adds one, if there is one.
	token func(context.Context) (string, error)
	// Close ends the way to it.
	Close func()
}

// Get asks for path, such as /busiest, with query, and decodes the JSON of the answer into what into points to. It
// takes 10 s at most and follows no redirection, so that a token goes nowhere else.
func (r *Replica) Get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u := r.url.JoinPath(path)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	if r.token != nil {
		token, err := r.token(ctx)
		if err != nil {
			return err
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
	}
	client := http.Client{Transport: r.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(plain.RecordHeader[:4]) == "HTTP" {
		return fmt.Errorf("%s: serves metrics without TLS: use an --endpoint with http", r.name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return r.refused(response)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBytes)).Decode(into); err != nil {
		return fmt.Errorf("%s: the answer to %s is not that of a replica: %w", r.name, path, err)
	}
	return nil
}

// refused is what an answer other than 200 means, in one line.
func (r *Replica) refused(response *http.Response) error {
	const most = 256 // bytes of the body
	body, _ := io.ReadAll(io.LimitReader(response.Body, most))
	message := r.name + ": " + response.Status
	if more := strings.TrimSpace(text.Visible(string(body))); more != "" {
		message += ": " + more
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized && response.Request.Header.Get("Authorization") == "":
		message += "; it wants a token, see --endpoint-token-file"
	case response.StatusCode == http.StatusNotFound:
		message += "; is it the metrics address of a replica of this version?"
	}
	return errors.New(message)
}
