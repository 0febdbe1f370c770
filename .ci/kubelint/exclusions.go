package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// exclusion accepts findings of one check about one object.
type exclusion struct {
	Check   string `json:"check"`
	Object  string `json:"object"`  // Kind/name
	Finding string `json:"finding"` // what kube-score says
	Reason  string `json:"reason"`  // why the manifest stays as it is

	// Files are the base names, without .yaml, of the files that may have the finding. Empty means all.
	Files []string `json:"files"`
}

func (e exclusion) matches(f finding) bool {
	name := strings.TrimSuffix(filepath.Base(f.file), ".yaml")
	return e.Check == f.check && e.Object == f.object && e.Finding == f.comment && (len(e.Files) == 0 || slices.Contains(e.Files, name))
}

// readExclusions reads the file of exclusions. Each must have all fields but files.
func readExclusions(file string) ([]exclusion, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config struct {
		Exclusions []exclusion `json:"exclusions"`
	}
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for i, e := range config.Exclusions {
		for field, value := range map[string]string{"check": e.Check, "object": e.Object, "finding": e.Finding, "reason": e.Reason} {
			if strings.TrimSpace(value) == "" {
				return nil, fmt.Errorf("%s: exclusions[%d] has no %s", file, i, field)
			}
		}
	}
	return config.Exclusions, nil
}
