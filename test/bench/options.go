package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// What -only may name.
const (
	onlyHandlers = "handlers"
	onlyAPI      = "api"
	onlyStorms   = "lane"
	onlyPolicies = "policies"
	onlyRedis    = "redis"
	onlySimulate = "simulate"
	onlyAttacks  = "attacks"
)

func parts() []string {
	return []string{onlyHandlers, onlyAPI, onlyStorms, onlyPolicies, onlyRedis, onlySimulate, onlyAttacks}
}

// options are the flags.
type options struct {
	only      string
	rounds    int
	seconds   float64
	objects   int
	simulated int
	// namespaces are those that have policies. No flag sets it: what is measured would be another thing.
	namespaces int
	output     string
}

// parseOptions reads and checks the flags. For -help it prints them and
// returns flag.ErrHelp.
func parseOptions(args []string) (options, error) {
	o := options{namespaces: 1000}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "measure the `part` named only: handlers, api, lane, policies, redis, simulate or attacks; empty for all")
	flags.IntVar(&o.rounds, "rounds", 5, "how often everything is measured, at least 1")
	flags.Float64Var(&o.seconds, "seconds", 5, "how long one measurement on the API server takes, in seconds, from 0.1 to 60; one of a handler, of policies or on Redis takes a tenth of it, a slice of time of an attack about a half, one of a storm two fifths or longer")
	flags.IntVar(&o.objects, "objects", 1_000_000, "how many sources and objects Redis is filled with, from 1000")
	flags.IntVar(&o.simulated, "simulated", 1_000_000, "how many Events simulate reads, from 1000")
	flags.StringVar(&o.output, "output", "bin/bench.json", "`file` that the figures are written to")
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stdout)
			flags.PrintDefaults()
		}
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q: there are none, only flags", flags.Arg(0))
	case o.only != "" && !slices.Contains(parts(), o.only):
		return o, fmt.Errorf("-only %q: must be one of %s", o.only, strings.Join(parts(), ", "))
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds %d: must be at least 1", o.rounds)
	case !(o.seconds >= 0.1 && o.seconds <= 60):
		return o, fmt.Errorf("-seconds %g: must be from 0.1 to 60", o.seconds)
	case o.objects < 1000:
		return o, fmt.Errorf("-objects %d: must be at least 1000", o.objects)
	case o.simulated < 1000:
		return o, fmt.Errorf("-simulated %d: must be at least 1000", o.simulated)
	case o.output == "":
		return o, errors.New("-output: must name a file")
	}
	return o, nil
}

// measures says whether a part is asked for.
func (o options) measures(part string) bool { return o.only == "" || o.only == part }

// window is how long one measurement on the API server takes.
func (o options) window() time.Duration { return time.Duration(o.seconds * float64(time.Second)) }

// handlerTime is how long one measurement of a handler takes, about.
func (o options) handlerTime() time.Duration { return o.window() / 10 }

// redisTime is how long one measurement on Redis takes, about.
func (o options) redisTime() time.Duration { return o.window() / 10 }
