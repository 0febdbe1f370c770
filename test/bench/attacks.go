package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// attackLine is what the test of attacks says of each attack: how long the slowest hundredth of others' reviews took.
var attackLine = regexp.MustCompile(`p99 of others: (\S+) without and (\S+) with (.+)`)

// inForceLine is what that test says of each kind of change of the admin's: how long it took to be in force while a tenant attacks.
var inForceLine = regexp.MustCompile(`in force under attack: median (\S+), worst (\S+): (.+)`)

// invalidNameChars are runs of what no name of a figure has.
var invalidNameChars = regexp.MustCompile(`[^a-z0-9.]+`)

// worstAttack is the largest ratio of all attacks.
const worstAttack = "attack_worst_p99_ratio"

// slowestInForce is the longest time that a change of the admin's took to be in force.
const slowestInForce = "attack_in_force_worst_ms"

// benchAttacks measures what others notice while somebody attacks the webhook, beside what they notice otherwise. It
// runs the test of that, which alternates both and has the attackers in a process of their own.
func benchAttacks(ctx context.Context, o options) ([]figures, error) {
	out, err := exec.CommandContext(ctx, "go", "test", "github.com/eventquota/eventquota/test/attacks", "-count", "1", "-v",
		"-args", "-reviews", strconv.Itoa(max(100, int(600*o.seconds)))).Output()
	if err != nil {
		return nil, fmt.Errorf("attacks: %w\n%s", err, out)
	}
	f, err := attackFigures(string(out))
	return []figures{f}, err
}

// attackFigures are those that the test has printed.
func attackFigures(out string) (figures, error) {
	f := figures{}
	for _, line := range attackLine.FindAllStringSubmatch(out, -1) {
		without, errWithout := time.ParseDuration(line[1])
		with, errWith := time.ParseDuration(line[2])
		if err := errors.Join(errWithout, errWith); err != nil {
			return nil, fmt.Errorf("attacks: %w", err)
		}
		name := attackFigurePrefix(line[3])
		f[name+"_quiet_p99_ms"], f[name+"_p99_ms"] = without.Seconds()*1000, with.Seconds()*1000
		f.ratio(name+"_p99_ratio", name+"_p99_ms", name+"_quiet_p99_ms")
		f[worstAttack] = max(f[worstAttack], f[name+"_p99_ratio"])
		progress("%s: p99 of others %s, without %s", line[3], with, without)
	}
	for _, line := range inForceLine.FindAllStringSubmatch(out, -1) {
		typical, errTypical := time.ParseDuration(line[1])
		worst, errWorst := time.ParseDuration(line[2])
		if err := errors.Join(errTypical, errWorst); err != nil {
			return nil, fmt.Errorf("attacks: %w", err)
		}
		name := attackFigurePrefix("in force " + line[3])
		f[name+"_median_ms"] = max(f[name+"_median_ms"], typical.Seconds()*1000) // it is in memory and on Redis
		f[name+"_slowest_ms"] = max(f[name+"_slowest_ms"], worst.Seconds()*1000)
		f[slowestInForce] = max(f[slowestInForce], worst.Seconds()*1000)
		progress("%s: in force after %s, at most %s", line[3], typical, worst)
	}
	if len(f) == 0 {
		return nil, fmt.Errorf("attacks: no figure in\n%s", out)
	}
	return f, nil
}

// attackFigurePrefix begins the names of an attack's figures.
func attackFigurePrefix(says string) string {
	return "attack_" + invalidNameChars.ReplaceAllString(strings.ToLower(strings.ReplaceAll(says, ",", "")), "_")
}

// attacks prints what others noticed.
func (r report) attacks() {
	fmt.Fprintf(r.out, "\nReviews of others while somebody attacks, medians of three slices or more:\n\n")
	r.table(func(row func(string, ...any)) {
		row("\tquiet p99 ms\tp99 ms\tratio")
		for _, name := range r.medians.names("attack_", "_p99_ratio") {
			if name+"_p99_ratio" != worstAttack {
				row("%s\t%.1f\t%.1f\t%.2f", name, r.medians[name+"_quiet_p99_ms"], r.medians[name+"_p99_ms"], r.medians[name+"_p99_ratio"])
			}
		}
	})
	fmt.Fprintf(r.out, "\nUntil a change of the admin's is in force while a tenant attacks, in memory or on Redis:\n\n")
	r.table(func(row func(string, ...any)) {
		row("\tmedian ms\tslowest ms")
		for _, name := range r.medians.names("attack_in_force_", "_median_ms") {
			row("%s\t%.1f\t%.1f", name, r.medians[name+"_median_ms"], r.medians[name+"_slowest_ms"])
		}
	})
}
