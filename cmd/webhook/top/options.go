package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// options are the flags of top.
type options struct {
	Replicas replicas.Options

	By       string
	Sort     string
	Interval time.Duration
	Limit    int
	Output   output.Format
	Once     bool
}

func defaultOptions() *options {
	return &options{
		Replicas: replicas.NewOptions(),
		By:       busiest.Source.String(), Sort: "total", Interval: 2 * time.Second, Limit: 20, Output: output.Table,
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	o.Replicas.AddFlags(f, false)
	f.StringVar(&o.By, "by", o.By, "what is shown: "+strings.Join(byNames(), ", "))
	f.StringVar(&o.Sort, "sort", o.Sort, "what comes first, most first: "+strings.Join(sortNames(), ", "))
	f.DurationVar(&o.Interval, "interval", o.Interval, "time between two looks, from 1s to 1h; replicas tell what they count every 2s")
	f.IntVar(&o.Limit, "limit", o.Limit, "rows that are shown, from 1 to 1000; a terminal may have place for fewer")
	f.VarP(&o.Output, "output", "o", "format: table, with a live view on a terminal; wide for what counts may lack too, json for a line each time, yaml, or name, without one")
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

func (o *options) validate() error {
	errs := []error{o.Replicas.Validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains(byNames(), o.By), "--by %q: must be of %s", o.By, strings.Join(byNames(), ", "))
	check(slices.Contains(sortNames(), o.Sort), "--sort %q: must be of %s", o.Sort, strings.Join(sortNames(), ", "))
	check(o.Interval >= time.Second && o.Interval <= time.Hour, "--interval %s: must be from 1s to 1h", o.Interval)
	check(o.Limit >= 1 && o.Limit <= 1000, "--limit %d: must be from 1 to 1000", o.Limit)
	return errors.Join(errs...)
}
