package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// explainTimeout bounds each question to the API server.
const explainTimeout = 15 * time.Second

// explainOptions are the flags of explain.
type explainOptions struct {
	Namespace    string
	Kubeconfig   string
	Redis        *redisclient.Options
	RedisPrefix  string
	Endpoint     endpointOptions
	Writers      []string
	WriterGroups []string
	Output       string
}

func defaultExplainOptions() *explainOptions {
	return &explainOptions{Redis: redisclient.DefaultOptions(), RedisPrefix: redis.DefaultPrefix, Output: "table"}
}

func (o *explainOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "namespace of the Events; empty for that of the kubeconfig's context. Events about an object of the cluster are in default, or where their source puts them")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file to read Events and policies with; empty for $KUBECONFIG, ~/.kube/config or the service account of the pod")
	o.Redis.AddFlags(f)
	f.StringVar(&o.RedisPrefix, "redis-prefix", o.RedisPrefix, "beginning of the names of all keys in Redis, as --redis-prefix of serve")
	o.Endpoint.addFlags(f)
	f.StringArrayVar(&o.Writers, "writer", o.Writers, "user whose Events to look at; may be given several times; none for those that parts of Kubernetes are, by the source of an Event")
	f.StringSliceVar(&o.WriterGroups, "writer-groups", o.WriterGroups, "groups of each --writer; empty for those that the API server puts such a user into")
	f.StringVarP(&o.Output, "output", "o", o.Output, "format of the report, table or json")
}

// usesRedis tells whether any flag about Redis was given.
func (o *explainOptions) usesRedis() bool {
	return !reflect.DeepEqual(o.Redis, redisclient.DefaultOptions())
}

func (o *explainOptions) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains([]string{"table", "json"}, o.Output), "--output %q: must be table or json", o.Output)
	check(len(o.WriterGroups) == 0 || len(o.Writers) > 0, "--writer-groups: needs --writer")
	check(!strings.ContainsAny(o.RedisPrefix, "{}"), "--redis-prefix %q: must have no braces", o.RedisPrefix)
	switch {
	case o.usesRedis() && o.Endpoint.isSet():
		check(false, "--endpoint and --redis-url or --redis-addresses: only one may be set")
	case o.usesRedis():
		errs = append(errs, o.Redis.Validate())
	case o.Endpoint.isSet():
		errs = append(errs, o.Endpoint.validate())
	default:
		check(false, "--endpoint, --redis-url or --redis-addresses: one must be set")
	}
	return errors.Join(errs...)
}

// cluster says how to reach the API server, and in which namespace to look.
func (o *explainOptions) cluster() (*rest.Config, string, error) {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = o.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, &clientcmd.ConfigOverrides{})
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("--kubeconfig: there is none at %s", strings.Join(loading.GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, "", fmt.Errorf("--kubeconfig: %w", oneLine(err))
	}
	config.QPS, config.Timeout = -1, explainTimeout
	config = rest.AddUserAgent(config, "eventquota-explain")
	if o.Namespace != "" {
		return config, o.Namespace, nil
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("--namespace: %w", oneLine(err))
	}
	return config, namespace, nil
}
