package publish

import (
	"context"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// group is a set of figures that the same packages decide.
type group struct {
	name     string
	prefixes []string // of the figures' names
	paths    []string // of the packages that are measured, and that measure; patterns of git
}

const demoPrefix = "demo_"

// groups are all. Every figure belongs to one.
func groups() []group {
	webhook := []string{"admission", "certs", "cmd/webhook", "policy", "store", "manifests/*.go", "manifests/base", "manifests/crds", "go.mod"}
	started := slices.Concat(webhook, []string{"test/cluster", "test/controlplane", "test/manifests/shipped", "test/ports", "test/replica"})
	return []group{
		{"api", []string{"api_", "api200_", "bystander_", "list_"}, append(slices.Clone(started), "test/bench", "test/bystander", "test/flood", "test/redis")},
		{"handlers", []string{"handler_"}, []string{"admission", "policy", "store", "test/bench", "go.mod"}},
		{"policies", []string{"policy_"}, []string{"policy", "test/bench", "go.mod"}},
		{"redis", []string{"redis_"}, []string{"admission", "policy", "store", "test/bench", "test/redis", "go.mod"}},
		{"simulate", []string{"simulate_"}, append(slices.Clone(webhook), "test/bench", "test/replica")},
		{"attacks", []string{"attack_"}, append(slices.Clone(started), "test/bench", "test/redis", attacks)},
		{"demo", []string{demoPrefix}, append(slices.Clone(started), "test/bystander", "test/demo", "test/flood", "test/storm")},
	}
}

// attacks is measured by a test.
const attacks = "test/attacks"

// affectsFigures says whether a file, of the paths of a group, can change a figure.
func affectsFigures(file string) bool {
	switch {
	case path.Ext(file) == ".md", strings.Contains(file, "/testdata/"), strings.HasPrefix(file, "test/bench/publish/"):
		return false
	case strings.HasSuffix(file, "_test.go"):
		return strings.HasPrefix(file, attacks+"/")
	}
	return !slices.Contains([]string{"test/bench/aims.go", "test/bench/record.go", "test/bench/report.go"}, file)
}

// groupOf is the group of a figure, nil if it has none.
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

// CurrentOrigin returns the commit that is checked out, the files that are measured and differ from it, and the machine. The
// commit is empty if git does not know it.
func CurrentOrigin(ctx context.Context, root, kubernetes string) Origin {
	o := Origin{Machine: ThisMachine(root, kubernetes)}
	if commit, err := git(ctx, root, "rev-parse", "HEAD"); err == nil {
		o.Commit = strings.TrimSpace(commit)
	}
	o.UpdateChanged(ctx, root)
	return o
}

// UpdateChanged adds the files that differ from the commit by now.
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

// CheckDemo fails where the demo that is checked out is not that of a commit.
func CheckDemo(ctx context.Context, root, commit string) error {
	files, err := groupOf(demoPrefix).changed(ctx, root, commit)
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("the demo of this tree differs from that of commit %.12s in %s", commit, summarizeFiles(files))
	}
	return err
}

// Stale has a sentence for each group of figures whose packages have changed since the commit of the record. An error means
// that it cannot be known, as without git or in a shallow clone.
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
			all = append(all, fmt.Sprintf("figures of %s are of commit %.12s; since then changed %s", g.name, r.Commit, summarizeFiles(files)))
		}
	}
	return all, nil
}

// changed are the files of a group that differ from a commit, in order, those that git does not track yet among them.
func (g group) changed(ctx context.Context, root, commit string) ([]string, error) {
	tracked, err := git(ctx, root, slices.Concat([]string{"diff", "--name-only", "--no-renames", "-z", commit, "--"}, g.paths)...)
	if err != nil {
		return nil, err
	}
	added, err := git(ctx, root, slices.Concat([]string{"ls-files", "--others", "--exclude-standard", "-z", "--"}, g.paths)...)
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(tracked+added, func(r rune) bool { return r == 0 })
	files = slices.DeleteFunc(files, func(file string) bool { return !affectsFigures(file) })
	slices.Sort(files)
	return files, nil
}

// git returns what a command of git prints.
func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...)
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		first, _, _ := strings.Cut(wrong.String(), "\n") // outside of a repository, git diff goes on with its whole help
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, first)
	}
	return string(out), nil
}
