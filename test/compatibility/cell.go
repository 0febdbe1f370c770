package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/test/bench/publish"
	"github.com/eventquota/eventquota/test/cluster/binaries"
)

// cell is a part on a version of Kubernetes.
type cell struct {
	part

	version string // such as 1.37.2; empty for redisPart
}

// cells returns the cells of the wanted minor versions and parts: one version after the other, and redisPart at the end.
func cells(releases []string, minors, names string) (all []cell, err error) {
	versions, err := choose("versions", minors, releases, binaries.Minor)
	if err != nil {
		return nil, err
	}
	chosen, err := choose("parts", names, parts(), func(p part) string { return p.name })
	if err != nil {
		return nil, err
	}
	for _, version := range versions {
		for _, p := range chosen {
			if p.name != redisPart {
				all = append(all, cell{p, version})
			}
		}
	}
	for _, p := range chosen {
		if p.name == redisPart {
			all = append(all, cell{part: p})
		}
	}
	return all, nil
}

// choose returns the wanted ones of all, or all if none is wanted. The error names the flag and the allowed names.
func choose[T any](flagName, wanted string, all []T, nameOf func(T) string) (chosen []T, err error) {
	var allowed []string
	for _, one := range all {
		allowed = append(allowed, nameOf(one))
	}
	for name := range strings.FieldsSeq(wanted) {
		at := slices.Index(allowed, name)
		if at < 0 {
			return nil, fmt.Errorf("-%s has %q: use some of %s", flagName, name, strings.Join(allowed, ", "))
		}
		chosen = append(chosen, all[at])
	}
	if len(chosen) == 0 {
		return all, nil
	}
	return chosen, nil
}

// String returns the name of the cell, such as "facts on Kubernetes 1.37.2".
func (c cell) String() string {
	if c.version == "" {
		return c.name
	}
	return c.name + " on Kubernetes " + c.version
}

// record runs the part, records its result, and reports whether it passed. It records nothing if the part was interrupted, or if
// the tested files are not those of a commit.
func (c cell) record(ctx context.Context) (passed bool, err error) {
	commit, err := publish.TestedCommit(ctx, root)
	if err != nil {
		return false, err
	}
	result, err := c.run(ctx)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return false, err
	}
	if err := publish.RequireTested(ctx, root, commit); err != nil {
		return false, err
	}
	result.Version, result.Commit, result.Date = c.version, commit, time.Now().UTC().Format(time.DateOnly)
	fmt.Printf("%s: %s\n\n", c, result)
	all, err := publish.ReadCompatibility(root)
	if err != nil {
		return false, err
	}
	if c.name == redisPart {
		server, err := redisServer(ctx)
		if err != nil {
			return false, err
		}
		all.Redis[server] = result
	} else {
		all.AddKubernetes(binaries.Minor(c.version), c.name, result)
	}
	return result.OK(), all.Write(root)
}

// run runs the part. An error means that it has no result.
func (c cell) run(ctx context.Context) (publish.Result, error) {
	if c.version != "" {
		// Programs that build or start the control plane read it.
		if err := os.Setenv(binaries.VersionVariable, c.version); err != nil {
			return publish.Result{}, err
		}
		// The minutes of a first build must not count against the time limit of tests.
		if _, err := binaries.Ensure(ctx, os.Stderr, "etcd", "kube-apiserver"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return publish.Result{Error: "the control plane does not build"}, nil
		}
	}
	if c.name == demoPart {
		return runDemo(ctx, c.args)
	}
	return runTests(ctx, c.args)
}
