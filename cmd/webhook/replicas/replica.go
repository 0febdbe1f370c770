// Package replicas connects commands to a replica, which answers for all replicas that share its Redis.
package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
)

// Bounds of one request to a replica. Answers are far shorter.
const (
	timeout  = 10 * time.Second
	maxBytes = 16 << 20
)

// Options are the flags that select a replica: in the cluster of a kubeconfig, or at an endpoint.
type Options struct {
	Endpoint string
	Cluster  *apiserver.Flags
	// Namespace is the only namespace to ask about; empty for all. It is not a flag of Options.
	Namespace string
	// SystemNamespace is the namespace of eventquota, for users who may not search for it.
	SystemNamespace string
}

// AddSystemFlag adds the flag for SystemNamespace to f.
func (o *Options) AddSystemFlag(f *pflag.FlagSet) {
	f.StringVar(&o.SystemNamespace, "system-namespace", "eventquota-system", "namespace of eventquota, for users who may see only one namespace and may not search for it")
}

// AddFlags adds the flags of Options to f, with --namespace if namespaced.
func AddFlags(f *pflag.FlagSet, namespaced bool) *Options {
	o := &Options{Cluster: apiserver.AddFlags(f, namespaced)}
	f.StringVar(&o.Endpoint, "endpoint", "", "URL of a replica that serves metrics without a token, as http://host:port, to ask instead of one in the cluster")
	return o
}

// Open connects to a replica. If Namespace is set, users who may not ask about all namespaces can ask about that one.
func (o *Options) Open(ctx context.Context) (*Replica, error) {
	if o.Endpoint != "" {
		u, err := parseEndpoint(o.Endpoint)
		if err != nil {
			return nil, fmt.Errorf("--endpoint: %w", err)
		}
		return newReplica("--endpoint", u, &rest.Config{}, func() {})
	}
	config, _, err := o.Cluster.Config()
	if err != nil {
		return nil, err
	}
	r, err := openByPortForward(ctx, config)
	if o.Namespace == "" || !apierrors.IsForbidden(err) {
		return r, err
	}
	r, proxyErr := openByProxy(ctx, config, o.SystemNamespace, o.Namespace)
	if proxyErr != nil {
		return nil, fmt.Errorf("%w; %w", err, proxyErr)
	}
	return r, nil
}

// parseEndpoint parses the URL of a replica. Its errors do not quote the URL, which may contain a password by mistake.
func parseEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.User != nil:
		return nil, errors.New("must have no user")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("must be http://host:port or https://host:port, with a path at most")
	}
	return u, nil
}

// Replica is a connection to a replica.
type Replica struct {
	name      string    // in errors
	namespace string    // the only namespace to ask about; empty for all
	expiry    time.Time // when its token expires; zero for none
	url       *url.URL
	client    *http.Client
	// Close closes the connection.
	Close func()
}

// newReplica returns a Replica at u, with the token and CA of config. It follows no redirects, so that the token goes nowhere else.
func newReplica(name string, u *url.URL, config *rest.Config, end func()) (*Replica, error) {
	config.Timeout = timeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		end()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Replica{name: name, url: u, client: client, Close: func() { utilnet.CloseIdleConnectionsFor(client.Transport); end() }}, nil
}

// ExpiresSoon reports whether the token expires within a minute, so that it is time to open another Replica.
func (r *Replica) ExpiresSoon() bool { return !r.expiry.IsZero() && time.Until(r.expiry) < time.Minute }

// Live asks for the counts of a namespace, or of all if it is empty.
func (r *Replica) Live(ctx context.Context, namespace string) (live busiest.Live, err error) {
	if err = r.Get(ctx, r.path("live"), nil, &live); err == nil && r.namespace == "" && namespace != "" {
		live = live.FilterNamespace(namespace)
	}
	return live, err
}

// Explain asks a question of package explain, and decodes the answer to the value that into points to. It takes at most 10 s.
func (r *Replica) Explain(ctx context.Context, question, into any) error {
	content, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("encode the question: %w", err)
	}
	return r.request(ctx, http.MethodPost, r.path("explain"), nil, content, into)
}

// path returns the path of what a replica serves about all namespaces, or about the only one to ask about.
func (r *Replica) path(name string) string {
	if r.namespace == "" {
		return "/" + name
	}
	return "/namespaces/" + url.PathEscape(r.namespace) + "/" + name
}

// Get requests path, such as /busiest, with query, and decodes the JSON of the answer to the value that into points to. It takes at
// most 10 s.
func (r *Replica) Get(ctx context.Context, path string, query url.Values, into any) error {
	return r.request(ctx, http.MethodGet, path, query, nil, into)
}

// request sends a request with JSON as its body, or none, and decodes the JSON of the answer.
func (r *Replica) request(ctx context.Context, method, path string, query url.Values, content []byte, into any) error {
	u := r.url.JoinPath(path)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return r.responseError(response)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxBytes)).Decode(into); err != nil {
		return fmt.Errorf("%s: the answer to %s is not from a replica: %w", r.name, path, err)
	}
	return nil
}

// responseError describes an answer other than 200 in one line.
func (r *Replica) responseError(response *http.Response) error {
	const maxBodyBytes = 256
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes))
	message := r.name + ": " + response.Status
	if detail := strings.TrimSpace(text.Sanitize(string(body))); detail != "" {
		message += ": " + detail
	}
	if response.StatusCode == http.StatusNotFound {
		message += "; does a replica of this version serve its metrics there?"
	}
	return errors.New(message)
}
