// Package replicas is how commands ask replicas: one of them answers for all that share its Redis.
package replicas

import (
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

// Bounds of one question to a replica. What it answers is far shorter.
const (
	timeout  = 10 * time.Second
	maxBytes = 16 << 20
)

// Options are the flags that say where to ask: the cluster of a kubeconfig, or one replica.
type Options struct {
	Endpoint string
	Cluster  *apiserver.Flags
	// Namespace is the only one to ask about; empty for all. It is no flag of Options.
	Namespace string
	// SystemNamespace is the namespace of eventquota, for users who may not look for it.
	SystemNamespace string
}

// AddSystemFlag adds the flag of System to f.
func (o *Options) AddSystemFlag(f *pflag.FlagSet) {
	f.StringVar(&o.SystemNamespace, "system-namespace", "eventquota-system", "namespace of eventquota, for users who may see one namespace only and not look for it")
}

// AddFlags adds Options to f, with --namespace if they are for a command that looks into one.
func AddFlags(f *pflag.FlagSet, namespaced bool) *Options {
	o := &Options{Cluster: apiserver.AddFlags(f, namespaced)}
	f.StringVar(&o.Endpoint, "endpoint", "", "URL of a replica that serves metrics without a token, to ask instead of one that the cluster has, as http://host:port")
	return o
}

// Open finds a replica to ask. With Namespace, users who may not ask about all get one that they may ask about that.
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
	r, asTenant := openByProxy(ctx, config, o.SystemNamespace, o.Namespace)
	if asTenant != nil {
		return nil, fmt.Errorf("%w; %w", err, asTenant)
	}
	return r, nil
}

// parseEndpoint reads the URL of a replica. No error prints it: it may hold a password that does not belong there.
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

// Replica is one that can be asked.
type Replica struct {
	name      string    // in errors
	namespace string    // the only namespace to ask about; empty for all
	expiry    time.Time // when its token expires; zero for none
	url       *url.URL
	client    *http.Client
	// Close ends the way to it.
	Close func()
}

// newReplica is asked at u, with a config's token and CA. It follows no redirection, so that the token goes nowhere else.
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

// ExpiresSoon reports whether the token is good for less than a minute more: it is time to find a replica anew.
func (r *Replica) ExpiresSoon() bool { return !r.expiry.IsZero() && time.Until(r.expiry) < time.Minute }

// Live asks who and what makes Event writes in a namespace, or in all if it is empty.
func (r *Replica) Live(ctx context.Context, namespace string) (live busiest.Live, err error) {
	if r.namespace != "" {
		err = r.Get(ctx, "/namespaces/"+url.PathEscape(namespace)+"/live", nil, &live)
		return live, err
	}
	if err = r.Get(ctx, "/live", nil, &live); err == nil && namespace != "" {
		live = live.FilterNamespace(namespace)
	}
	return live, err
}

// Get asks for path, such as /busiest, with query, and decodes the JSON of the answer into what into points to. It
// takes 10 s at most.
func (r *Replica) Get(ctx context.Context, path string, query url.Values, into any) error {
	u := r.url.JoinPath(path)
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
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
		return fmt.Errorf("%s: the answer to %s is not that of a replica: %w", r.name, path, err)
	}
	return nil
}

// responseError is what an answer other than 200 means, in one line.
func (r *Replica) responseError(response *http.Response) error {
	const most = 256 // bytes of the body
	body, _ := io.ReadAll(io.LimitReader(response.Body, most))
	message := r.name + ": " + response.Status
	if more := strings.TrimSpace(text.Sanitize(string(body))); more != "" {
		message += ": " + more
	}
	if response.StatusCode == http.StatusNotFound {
		message += "; does a replica of this version serve its metrics there?"
	}
	return errors.New(message)
}
