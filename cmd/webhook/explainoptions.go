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

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/connect"
)

// explainTimeout bounds each question to the API server.
const explainTimeout = 15 * time.Second

// explainOptions are the flags of explain.
type explainOptions struct {
	Namespace    string
	Kubeconfig   string
	Redis        *connect.Options
	RedisPrefix  string
	Endpoint     endpointOptions
	Writer       string
	WriterGroups []string
	Output       string
}

func defaultExplainOptions() *explainOptions {
	return &explainOptions{Redis: connect.DefaultOptions(), RedisPrefix: store.DefaultRedisPrefix, Output: "table"}
}

func (o *explainOptions) addFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "namespace of the Events; empty for that of the kubeconfig's context. Events about an object of the cluster are in default, or where their source puts them")
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file to read Events and policies with; empty for $KUBECONFIG, ~/.kube/config or the service account of the pod")
	o.Redis.AddFlags(f)
	f.StringVar(&o.RedisPrefix, "redis-prefix", o.RedisPrefix, "beginning of the names of all keys in Redis, as --redis-prefix of serve")
	o.Endpoint.addFlags(f)
	f.StringVar(&o.Writer, "writer", o.Writer, "user to take for who writes the next Event, for policies that ask for it and buckets of users")
	f.StringSliceVar(&o.WriterGroups, "writer-groups", o.WriterGroups, "groups of --writer")
	f.StringVarP(&o.Output, "output", "o", o.Output, "format of the report, table or json")
}

// usesRedis tells whether any flag about Redis was given.
func (o *explainOptions) usesRedis() bool {
	return !reflect.DeepEqual(o.Redis, connect.DefaultOptions())
}

func (o *explainOptions) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains([]string{"table", "json"}, o.Output), "--output %q: must be table or json", o.Output)
	check(len(o.WriterGroups) == 0 || o.Writer != "", "--writer-groups: needs --writer")
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
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("--kubeconfig: there is none at %s", strings.Join(rules.GetLoadingPrecedence(), ", "))
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
