// Command kubelint checks rendered manifests with kube-score. Each finding must be excluded by -config, with a reason, and each
// exclusion must match a finding:
//
//	go run . -config config.yaml FILES...
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	config := flag.String("config", "config.yaml", "file of exclusions")
	flag.Parse()
	if err := run(*config, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run checks the files. Each is one installation, whose objects may refer to each other.
func run(config string, files []string) error {
	if len(files) == 0 {
		return errors.New("no files to check")
	}
	exclusions, err := readExclusions(config)
	if err != nil {
		return err
	}
	var findings []finding
	for _, file := range files {
		found, err := score(file)
		if err != nil {
			return err
		}
		findings = append(findings, found...)
	}
	return judge(findings, exclusions)
}

// judge returns an error for each finding that no exclusion matches, and for each exclusion that matches no finding.
func judge(findings []finding, exclusions []exclusion) error {
	var problems []error
	used := make([]bool, len(exclusions))
	for _, f := range findings {
		excluded := false
		for i, e := range exclusions {
			if e.matches(f) {
				used[i], excluded = true, true
			}
		}
		if !excluded {
			problems = append(problems, errors.New(f.String()))
		}
	}
	for i, e := range exclusions {
		if !used[i] {
			problems = append(problems, fmt.Errorf("no finding matches the exclusion of %s for %s %q", e.Check, e.Object, e.Finding))
		}
	}
	return errors.Join(problems...)
}
