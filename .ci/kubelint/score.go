package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/zegl/kube-score/config"
	"github.com/zegl/kube-score/domain"
	"github.com/zegl/kube-score/parser"
	kubescore "github.com/zegl/kube-score/score"
	"github.com/zegl/kube-score/score/checks"
	"github.com/zegl/kube-score/scorecard"
)

// The oldest supported Kubernetes.
var kubernetes = config.Semver{Major: 1, Minor: 34}

// finding is one comment of a check that an object failed.
type finding struct {
	file    string
	check   string // the ID of the check
	object  string // Kind/name
	comment string
}

func (f finding) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", f.file, f.object, f.check, f.comment)
}

// score runs all checks of kube-score, optional ones too, on the objects of a file, except kinds that kube-score
// does not know. Annotations cannot turn a check off.
func score(file string) ([]finding, error) {
	content, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	reader, err := parser.New(&parser.Config{})
	if err != nil {
		return nil, fmt.Errorf("start kube-score: %w", err)
	}
	objects, err := reader.ParseFiles([]domain.NamedReader{content})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	options := &config.RunConfiguration{
		KubernetesVersion: kubernetes, MinReplicasDeployment: 2, MinReplicasHPA: 2, EnabledOptionalTests: map[string]struct{}{},
	}
	all := kubescore.RegisterAllChecks(objects, &checks.Config{}, options)
	for _, check := range all.All() {
		options.EnabledOptionalTests[check.ID] = struct{}{}
	}
	card, err := kubescore.Score(objects, all, options)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", file, err)
	}
	return findingsOf(file, *card), nil
}

// findingsOf returns the findings of a file, sorted. A check that failed without a comment is a finding too.
func findingsOf(file string, card scorecard.Scorecard) (findings []finding) {
	for _, object := range card {
		for _, result := range object.Checks {
			if result.Skipped || result.Grade > scorecard.GradeWarning {
				continue
			}
			f := finding{file: file, check: result.Check.ID, object: object.TypeMeta.Kind + "/" + object.ObjectMeta.Name}
			if len(result.Comments) == 0 {
				f.comment = result.Check.Name
				findings = append(findings, f)
			}
			for _, comment := range result.Comments {
				f.comment = comment.Summary
				findings = append(findings, f)
			}
		}
	}
	slices.SortFunc(findings, func(a, b finding) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(findings)
}
