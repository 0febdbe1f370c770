package publish

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// group is a set of figures that depend on the same packages.
type group struct {
	name     string
	prefixes []string // prefixes of the figures' names
	paths    []string // git pathspecs of the measured packages and of those that measure them
}

// demoPrefix is the prefix of the figures from the demo.
const demoPrefix = "demo_"

// groups returns all groups. Every figure belongs to one.
func groups() []group {
	webhook := []string{"admission", "certs", "cmd/webhook", "policy", "store", "manifests/*.go", "manifests/base", "manifests/crds", "go.mod"}
	running := slices.Concat(webhook, []string{"test/certificates", "test/cluster", "test/controlplane", "test/manifests/shipped", "test/ports", "test/replica", "test/userenv"})
	return []group{
		{"api", []string{"api_", "api200_", "bystander_", "list_", "serial_"}, append(slices.Clone(running), "test/bench", "test/bystander", "test/flood", "test/redis")},
		{"handlers", []string{"handler_"}, []string{"admission", "policy", "store", "test/bench", "go.mod"}},
		{"policies", []string{"policy_"}, []string{"policy", "test/bench", "go.mod"}},
		{"redis", []string{"redis_"}, []string{"admission", "policy", "store", "test/bench", "test/redis", "go.mod"}},
		{"simulate", []string{"simulate_"}, append(slices.Clone(webhook), "test/bench", "test/replica")},
		{"attacks", []string{"attack_"}, append(slices.Clone(running), "test/bench", "test/leaks", "test/redis", attacks)},
		{"demo", []string{demoPrefix}, append(slices.Clone(running), "test/bystander", "test/demo", "test/flood", "test/storm")},
	}
}

// attacks is the package whose test measures attacks.
const attacks = "test/attacks"

// affectsFigures reports whether a file that matches the paths of a group can affect figures.
func affectsFigures(file string) bool {
	switch {
	case path.Ext(file) == ".md", strings.Contains(file, "/testdata/"), strings.HasPrefix(file, "test/bench/publish/"):
		return false
	case strings.HasSuffix(file, "_test.go"):
		return strings.HasPrefix(file, attacks+"/")
	}
	return !slices.Contains([]string{"test/bench/aims.go", "test/bench/record.go", "test/bench/report.go"}, file)
}

// groupOf returns the group of a figure, or nil.
func groupOf(figure string) *group {
	all := groups()
	for i := range all {
		for _, prefix := range all[i].prefixes {
			if strings.HasPrefix(figure, prefix) {
				return &all[i]
			}
		}
	}
	return nil
}

// CurrentOrigin returns the machine, the commit that is checked out in root, and the measured files that differ from it. The commit is
// empty if git fails. kubernetes is a version as in EVENTQUOTA_KUBERNETES, or empty for the default.
func CurrentOrigin(ctx context.Context, root, kubernetes string) Origin {
	o := Origin{Machine: ThisMachine(root, kubernetes)}
	if commit, err := git(ctx, root, "rev-parse", "HEAD"); err == nil {
		o.Commit = strings.TrimSpace(commit)
	}
	o.UpdateChanged(ctx, root)
	return o
}

// UpdateChanged adds the measured files that differ from the commit now. It empties the commit if git fails.
func (o *Origin) UpdateChanged(ctx context.Context, root string) {
	if o.Commit == "" {
		return
	}
	for _, g := range groups() {
		files, err := g.changed(ctx, root, o.Commit)
		if err != nil {
			o.Commit = ""
			return
		}
		o.Changed = append(o.Changed, files...)
	}
	slices.Sort(o.Changed)
	o.Changed = slices.Compact(o.Changed)
}

// CheckDemo returns an error if files on which the demo depends differ from those of a commit.
func CheckDemo(ctx context.Context, root, commit string) error {
	files, err := groupOf(demoPrefix).changed(ctx, root, commit)
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("the demo differs from commit %.12s in %s", commit, summarizeFiles(files))
	}
	return err
}

// Stale returns a sentence for each group of figures whose packages have changed since the commit of the record. It returns an error if
// git cannot compare them, such as in a shallow clone.
func (r Record) Stale(ctx context.Context, root string) (all []string, err error) {
	measured := map[string]bool{}
	for name := range r.Figures {
		if g := groupOf(name); g != nil {
			measured[g.name] = true
		}
	}
	for _, g := range groups() {
		if !measured[g.name] {
			continue
		}
		files, err := g.changed(ctx, root, r.Commit)
		if err != nil {
			return nil, err
		}
		if len(files) > 0 {
			all = append(all, fmt.Sprintf("the figures of %s may be out of date: since commit %.12s, %s changed", g.name, r.Commit, summarizeFiles(files)))
		}
	}
	return all, nil
}

// changed returns the files of a group that differ from a commit, sorted.
func (g group) changed(ctx context.Context, root, commit string) ([]string, error) {
	files, err := changedFiles(ctx, root, commit, g.paths...)
	return slices.DeleteFunc(files, func(file string) bool { return !affectsFigures(file) }), err
}

// changedFiles returns the files matching git pathspecs that differ from a commit, sorted. They include untracked files.
func changedFiles(ctx context.Context, root, commit string, paths ...string) ([]string, error) {
	tracked, err := git(ctx, root, slices.Concat([]string{"diff", "--name-only", "--no-renames", "-z", commit, "--"}, paths)...)
	if err != nil {
		return nil, err
	}
	added, err := git(ctx, root, slices.Concat([]string{"ls-files", "--others", "--exclude-standard", "-z", "--"}, paths)...)
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(tracked+added, func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return files, nil
}

// git runs a git command in root and returns its standard output.
func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		first, _, _ := strings.Cut(stderr.String(), "\n") // outside of a repository, git diff then prints its whole help
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, first)
	}
	return string(out), nil
}
