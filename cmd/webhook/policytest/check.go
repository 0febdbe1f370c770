package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
)

// Bounds of a test.
const (
	maxWrites = 100_000
	// maxTime is longer than any window and the time in which a bucket of a namespace fills up.
	maxTime = 72 * time.Hour
)

// suite is a file of tests that is valid, with its policies.
type suite struct {
	Name  string
	tests []test
	steps [][]*writer // of each test
	rules *policyfile.Rules
	from  *source
}

// readSuite reads a file. The error has everything that is wrong, each in a line.
func readSuite(name string) (*suite, error) {
	from, err := readSource(name)
	if err != nil {
		return nil, err
	}
	return newSuite(from)
}

func newSuite(from *source) (*suite, error) {
	var d document
	if err := from.decode(&d); err != nil {
		return nil, err
	}
	c := &checker{of: from, documented: &d}
	switch {
	case d.APIVersion != apiVersion:
		c.wrong("/apiVersion", "must be "+apiVersion)
	case d.Kind != kind:
		c.wrong("/kind", "must be "+kind)
	case len(d.Tests) == 0:
		c.wrong("/tests", "must have at least one test")
	}
	rules, err := c.policies()
	if err != nil {
		return nil, err
	}
	s := &suite{Name: from.name, tests: d.Tests, rules: rules, from: from}
	seen := map[string]bool{}
	for i := range d.Tests {
		at := jsontext.Pointer("/tests").AppendToken(strconv.Itoa(i))
		t := &d.Tests[i]
		if t.Name == "" {
			c.wrong(at+"/name", "must say what the test holds")
		} else if seen[t.Name] {
			c.wrong(at+"/name", fmt.Sprintf("%q: must not be the name of another test too", t.Name))
		}
		seen[t.Name] = true
		s.steps = append(s.steps, c.test(at, t, rules))
	}
	return s, c.err()
}

// checker collects what is wrong with a file.
type checker struct {
	of         *source
	documented *document
	known      *known
	errs       []located
}

// located is an error and its line.
type located struct {
	error

	line int
}

func (c *checker) wrong(at jsontext.Pointer, says string) {
	_, line := c.of.place(at)
	c.errs = append(c.errs, located{c.of.problem(problem{at, says}), line})
}

// err is all that is wrong, in the order of lines; nil if nothing is.
func (c *checker) err() error {
	slices.SortStableFunc(c.errs, func(a, b located) int { return cmp.Compare(a.line, b.line) })
	all := make([]error, len(c.errs))
	for i := range c.errs {
		all[i] = c.errs[i].error
	}
	return errors.Join(all...)
}

// policies reads the policies of the file, and the labels of namespaces. All must be valid and in force.
func (c *checker) policies() (*policyfile.Rules, error) {
	var paths []string
	for i, path := range c.documented.Policies {
		if path == "" {
			c.wrong(jsontext.Pointer("/policies").AppendToken(strconv.Itoa(i)), "must be a file or directory")
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(c.of.name), path)
		}
		paths = append(paths, path)
	}
	rules, err := policyfile.Read(policyfile.Input{Paths: paths})
	if err != nil {
		c.wrong("/policies", err.Error())
		rules, err = policyfile.New()
	}
	if err != nil {
		return nil, err
	}
	for _, err := range rules.Invalid {
		c.wrong("/policies", err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(c.documented.Namespaces)) {
		at := jsontext.Pointer("/namespaces").AppendToken(name)
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			c.wrong(at, "must be the name of a namespace: "+strings.Join(wrong, "; "))
			continue
		}
		if rules.Namespaces[name].Labels != nil {
			c.wrong(at, "is among the policies already")
			continue
		}
		setLabels(rules, name, c.documented.Namespaces[name])
	}
	c.known = knownOf(rules)
	return rules, nil
}

// setLabels makes a namespace known, with the label that the API server gives it.
func setLabels(rules *policyfile.Rules, name string, has map[string]string) {
	n := rules.Namespaces[name]
	n.Labels = labels.Merge(has, labels.Set{corev1.LabelMetadataName: name})
	rules.Namespaces[name] = n
}

// test checks a test, and returns what its steps write.
func (c *checker) test(at jsontext.Pointer, t *test, rules *policyfile.Rules) (steps []*writer) {
	if len(t.Events) == 0 {
		c.wrong(at+"/events", "must have at least one Event")
	}
	wants := 0
	if t.Want != nil {
		wants++
		c.want(at+"/want", &t.Want.want, t.Want.EtcdWrites != nil || t.Want.Notices != nil)
	}
	var begin time.Duration
	all := 0
	for i := range t.Events {
		here, s := (at + "/events").AppendToken(strconv.Itoa(i)), &t.Events[i]
		w := c.step(here, s, begin)
		if s.Want != nil {
			wants++
			c.want(here+"/want", s.Want, false)
		}
		if w == nil {
			continue
		}
		w.step, begin = i, w.end()
		if begin > maxTime {
			c.wrong(here+"/every", fmt.Sprintf("the last is %s after the beginning, and must be at most %.0fh", begin, maxTime.Hours()))
			begin = 0
		}
		all += w.objects * w.times
		c.placed(here, w, rules)
		steps = append(steps, w)
	}
	if all > maxWrites {
		c.wrong(at+"/events", fmt.Sprintf("has %d writes, objects times times, and must have at most %d", all, maxWrites))
	}
	if wants == 0 && len(t.Events) > 0 {
		c.wrong(at+"/want", "must be there, or in one of its events")
	}
	return steps
}

// placed checks the namespaces of a step, which are known from then on.
func (c *checker) placed(at jsontext.Pointer, w *writer, rules *policyfile.Rules) {
	field := at + "/event/namespace"
	if w.fullForm {
		field = at + "/object/metadata/namespace"
	}
	count := 1
	if w.moving {
		count = w.objects
	}
	for n := range count {
		e, err := w.event(n, 0)
		if err != nil {
			c.wrong(at, "must be an Event with {n} and {i} replaced")
			return
		}
		if wrong := validation.IsDNS1123Label(e.Namespace); len(wrong) > 0 {
			c.wrong(field, fmt.Sprintf("%q: must be the name of a namespace: %s", e.Namespace, strings.Join(wrong, "; ")))
			return
		}
		if rules.Namespaces[e.Namespace].Labels == nil {
			setLabels(rules, e.Namespace, nil)
		}
	}
}

// want checks what is wanted. more says that it holds something beside.
func (c *checker) want(at jsontext.Pointer, w *want, more bool) {
	if !more && *w == (want{}) {
		c.wrong(at, "must have at least one of admitted, audited, combined, dropped, merged, policy, refusedBy, warningsDropped")
	}
	if w.Policy != nil {
		c.among(at+"/policy", *w.Policy, c.known.policies)
	}
	if w.RefusedBy != nil {
		c.among(at+"/refusedBy", *w.RefusedBy, c.known.refusers)
	}
	if w.Audited != nil {
		if *w.Audited == (counts{}) {
			c.wrong(at+"/audited", "must have at least one of admitted, dropped, merged, refusedBy")
		}
		if w.Audited.RefusedBy != nil {
			c.among(at+"/audited/refusedBy", *w.Audited.RefusedBy, c.known.refusers)
		}
	}
}

// among checks that names are known.
func (c *checker) among(at jsontext.Pointer, all names, known []string) {
	for _, name := range all {
		if !slices.Contains(known, name) {
			c.wrong(at, fmt.Sprintf("%q: must be one of %s", name, strings.Join(known, ", ")))
		}
	}
}

// known are the names that rules have in wants.
type known struct{ policies, refusers []string }

func knownOf(r *policyfile.Rules) *known {
	all := policy.Rules{Policies: []*policy.Policy{policy.Default()}}
	all.Add(r.Cluster)
	for _, n := range r.Namespaces {
		all.Add(n.Rules)
	}
	k := &known{}
	for _, p := range all.Policies {
		k.policies = append(k.policies, p.Name)
		switch {
		case p.Action == policy.Drop:
			k.refusers = append(k.refusers, p.Name)
		case p.Action == policy.Limit && p.SpamFilter.Enabled:
			k.refusers = append(k.refusers, "spam filter of "+p.Name)
		}
	}
	for _, q := range all.Quotas {
		for i := range q.Limits {
			k.refusers = append(k.refusers, q.Limits[i].Name+" of "+q.Name)
		}
	}
	slices.Sort(k.policies)
	slices.Sort(k.refusers)
	return k
}
