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

// attackLine matches what test/attacks prints about each attack: the p99 of other clients' reviews without and with it.
var attackLine = regexp.MustCompile(`p99 of others: (\S+) without and (\S+) with (.+)`)

// inForceLine matches what test/attacks prints about each kind of change by the administrator: how long it took to come into force
// while a tenant attacked.
var inForceLine = regexp.MustCompile(`in force under attack: median (\S+), worst (\S+): (.+)`)

// invalidNameChars matches characters that names of figures cannot have.
var invalidNameChars = regexp.MustCompile(`[^a-z0-9.]+`)

// worstAttack names the largest ratio of all attacks.
const worstAttack = "attack_worst_p99_ratio"

// slowestInForce names the longest time that a change by the administrator took to come into force.
const slowestInForce = "attack_in_force_worst_ms"

// benchAttacks runs test/attacks, and parses its output. The test compares the latency of reviews with and without an attack in
// alternating slices. The attackers run in a separate process.
func benchAttacks(ctx context.Context, o options) ([]figures, error) {
	out, err := exec.CommandContext(ctx, "go", "test", "github.com/eventquota/eventquota/test/attacks", "-count", "1", "-v",
		"-args", "-pairs", "3", "-steps", "4500", "-reviews", strconv.Itoa(max(100, int(600*o.seconds)))).Output()
	if err != nil {
		return nil, fmt.Errorf("attacks: %w\n%s", err, out)
	}
	f, err := attackFigures(string(out))
	return []figures{f}, err
}

// attackFigures parses the output of test/attacks. It returns an error if the output has no figure.
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
		progress("%s: p99 of others %s with the attack, %s without", line[3], with, without)
	}
	for _, line := range inForceLine.FindAllStringSubmatch(out, -1) {
		typical, errTypical := time.ParseDuration(line[1])
		worst, errWorst := time.ParseDuration(line[2])
		if err := errors.Join(errTypical, errWorst); err != nil {
			return nil, fmt.Errorf("attacks: %w", err)
		}
		name := attackFigurePrefix("in force " + line[3])
		f[name+"_median_ms"] = max(f[name+"_median_ms"], typical.Seconds()*1000) // printed once for each store, memory and Redis
		f[name+"_slowest_ms"] = max(f[name+"_slowest_ms"], worst.Seconds()*1000)
		f[slowestInForce] = max(f[slowestInForce], worst.Seconds()*1000)
		progress("%s: in force after %s (median), %s (worst)", line[3], typical, worst)
	}
	if len(f) == 0 {
		return nil, fmt.Errorf("attacks: no figure in the output:\n%s", out)
	}
	return f, nil
}

// attackFigurePrefix turns the title of an attack into the prefix of its figures' names.
func attackFigurePrefix(title string) string {
	return "attack_" + invalidNameChars.ReplaceAllString(strings.ToLower(strings.ReplaceAll(title, ",", "")), "_")
}

// attacks prints the latency of other clients during each attack, and how long changes took to come into force.
func (r report) attacks() {
	fmt.Fprintf(r.out, "\nLatency of other clients' reviews during an attack, medians of three slices:\n\n")
	r.table(func(row func(string, ...any)) {
		row("\tquiet p99 ms\tp99 ms\tratio")
		for _, name := range r.medians.names("attack_", "_p99_ratio") {
			if name+"_p99_ratio" != worstAttack {
				row("%s\t%.1f\t%.1f\t%.2f", name, r.medians[name+"_quiet_p99_ms"], r.medians[name+"_p99_ms"], r.medians[name+"_p99_ratio"])
			}
		}
	})
	fmt.Fprintf(r.out, "\nTime until a change by the administrator is in force while a tenant attacks, the slower of memory and Redis:\n\n")
	r.table(func(row func(string, ...any)) {
		row("\tmedian ms\tslowest ms")
		for _, name := range r.medians.names("attack_in_force_", "_median_ms") {
			row("%s\t%.1f\t%.1f", name, r.medians[name+"_median_ms"], r.medians[name+"_slowest_ms"])
		}
	})
}
