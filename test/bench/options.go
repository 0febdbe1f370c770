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

// The parts that -only accepts.
const (
	onlyHandlers = "handlers"
	onlyAPI      = "api"
	onlySerial   = "serial"
	onlyStorms   = "lane"
	onlyPolicies = "policies"
	onlyRedis    = "redis"
	onlySimulate = "simulate"
	onlyAttacks  = "attacks"
)

// parts returns the parts in the order in which help and errors name them.
func parts() []string {
	return []string{onlyHandlers, onlyAPI, onlySerial, onlyStorms, onlyPolicies, onlyRedis, onlySimulate, onlyAttacks}
}

// options has the values of the flags.
type options struct {
	only      string
	rounds    int
	seconds   float64
	objects   int
	simulated int
	// namespaces is the number of namespaces with policies. It is not a flag, because figures would no longer be comparable.
	namespaces int
	output     string
}

// parseOptions parses and checks the flags. For -help it prints them to standard output and returns flag.ErrHelp.
func parseOptions(args []string) (options, error) {
	o := options{namespaces: 1000}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "measure only this `part`: handlers, api, serial, lane, policies, redis, simulate or attacks; empty measures all")
	flags.IntVar(&o.rounds, "rounds", 5, "number of rounds, at least 1")
	flags.Float64Var(&o.seconds, "seconds", 5, "time of one measurement on the API server in seconds, from 0.1 to 60. Handlers, policies and Redis take a tenth of it, a slice of an attack about half, and a slice of a storm at least two fifths")
	flags.IntVar(&o.objects, "objects", 1_000_000, "number of sources and objects to fill Redis with, at least 1000")
	flags.IntVar(&o.simulated, "simulated", 1_000_000, "number of Events that simulate reads, at least 1000")
	flags.StringVar(&o.output, "output", "bin/bench.json", "`file` to write the figures to")
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
		return o, fmt.Errorf("unexpected argument %q: only flags are allowed", flags.Arg(0))
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

// measures reports whether a part is to be measured.
func (o options) measures(part string) bool { return o.only == "" || o.only == part }

// window returns the time of one measurement on the API server.
func (o options) window() time.Duration { return time.Duration(o.seconds * float64(time.Second)) }

// handlerTime returns the approximate time of one measurement of a handler or of policies.
func (o options) handlerTime() time.Duration { return o.window() / 10 }

// redisTime returns the time of one measurement on Redis.
func (o options) redisTime() time.Duration { return o.window() / 10 }
