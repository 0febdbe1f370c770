package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/store/busiest"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
)

// topOptions are the flags of top.
type topOptions struct {
	Redis       *redisclient.Options
	RedisPrefix string
	Endpoint    endpointOptions

	By       string
	Sort     string
	Interval time.Duration
	Limit    int
	Output   string
	Once     bool
}

func defaultTopOptions() *topOptions {
	return &topOptions{
		Redis: redisclient.DefaultOptions(), RedisPrefix: redis.DefaultPrefix,
		By: busiest.Source.String(), Sort: "total", Interval: 2 * time.Second, Limit: 20, Output: "table",
	}
}

func (o *topOptions) addFlags(f *pflag.FlagSet) {
	o.Redis.AddFlags(f)
	f.StringVar(&o.RedisPrefix, "redis-prefix", o.RedisPrefix, "beginning of the names of all keys in Redis, as --redis-prefix of serve")
	o.Endpoint.addFlags(f)
	f.StringVar(&o.By, "by", o.By, "what is shown: "+strings.Join(byNames(), ", "))
	f.StringVar(&o.Sort, "sort", o.Sort, "what comes first, most first: "+strings.Join(sortNames(), ", "))
	f.DurationVar(&o.Interval, "interval", o.Interval, "time between two looks, from 1s to 1h; replicas tell what they count every 2s")
	f.IntVar(&o.Limit, "limit", o.Limit, "rows that are shown, from 1 to 1000; a terminal may have place for fewer")
	f.StringVarP(&o.Output, "output", "o", o.Output, "format where there is no live view: table, or json for a line of JSON each time; json has no live view")
	f.BoolVar(&o.Once, "once", o.Once, "print once, after as many looks as rates need, and exit")
}

func byNames() []string {
	var all []string
	for _, by := range busiest.All() {
		all = append(all, by.String())
	}
	return all
}

// sortNames are what --sort takes, in the order of the columns.
func sortNames() []string { return []string{"admitted", "merged", "dropped", "total", "rate"} }

// usesRedis tells whether any flag about Redis was given.
func (o *topOptions) usesRedis() bool {
	return !reflect.DeepEqual(o.Redis, redisclient.DefaultOptions())
}

func (o *topOptions) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	switch {
	case o.usesRedis() && o.Endpoint.isSet():
		errs = append(errs, errors.New("--endpoint and --redis-url or --redis-addresses: only one may be set"))
	case o.usesRedis():
		errs = append(errs, o.Redis.Validate())
	case o.Endpoint.isSet():
		errs = append(errs, o.Endpoint.validate())
	default:
		errs = append(errs, errors.New("--endpoint, --redis-url or --redis-addresses: one must be set"))
	}
	check(!strings.ContainsAny(o.RedisPrefix, "{}"), "--redis-prefix %q: must have no braces", o.RedisPrefix)
	check(slices.Contains(byNames(), o.By), "--by %q: must be of %s", o.By, strings.Join(byNames(), ", "))
	check(slices.Contains(sortNames(), o.Sort), "--sort %q: must be of %s", o.Sort, strings.Join(sortNames(), ", "))
	check(o.Interval >= time.Second && o.Interval <= time.Hour, "--interval %s: must be from 1s to 1h", o.Interval)
	check(o.Limit >= 1 && o.Limit <= 1000, "--limit %d: must be from 1 to 1000", o.Limit)
	check(slices.Contains([]string{"table", "json"}, o.Output), "--output %q: must be table or json", o.Output)
	return errors.Join(errs...)
}
