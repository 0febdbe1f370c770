package policytest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/cmd/webhook/document"
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
	doc   *document.Document
	tests []test
	steps [][]*writer // of each test
	rules *policyfile.Rules
}

// readSuite reads a file. What is wrong with it is the error, and is document.FieldErrors if it has lines.
func readSuite(name string) (*suite, error) {
	content, err := document.Load(name, nil)
	if err != nil {
		return nil, err
	}
	return newSuite(name, content)
}

func newSuite(name string, content []byte) (*suite, error) {
	doc, err := document.One(name, content)
	if err != nil {
		return nil, err
	}
	var of suiteFile
	switch version, is := document.Type(doc.Value); {
	case version == apiVersion && is == kind:
		doc.Decode("", doc.Value, &of)
	case version != apiVersion:
		doc.Wrong("apiVersion", "must be %s", apiVersion)
	default:
		doc.Wrong("kind", "must be %s", kind)
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	c := &checker{Document: doc, documented: &of}
	if len(of.Tests) == 0 {
		c.Wrong("tests", "must have at least one test")
	}
	rules, err := c.policies()
	if err != nil {
		return nil, err
	}
	s := &suite{doc: doc, tests: of.Tests, rules: rules}
	seen := map[string]bool{}
	for i := range of.Tests {
		at, t := fmt.Sprintf("tests[%d]", i), &of.Tests[i]
		if t.Name == "" {
			c.Wrong(at+".name", "must say what the test holds")
		} else if seen[t.Name] {
			c.Wrong(at+".name", "%q: must not be the name of another test too", t.Name)
		}
		seen[t.Name] = true
		s.steps = append(s.steps, c.test(at, t, rules))
	}
	return s, c.Err()
}

// checker finds what is wrong with a file that can be decoded.
type checker struct {
	*document.Document

	documented *suiteFile
	known      *known
}

// policies reads the policies of the file, and the labels of namespaces. All must be valid and in force.
func (c *checker) policies() (*policyfile.Rules, error) {
	var paths []string
	for i, path := range c.documented.Policies {
		if path == "" {
			c.Wrong(fmt.Sprintf("policies[%d]", i), "must be a file or directory")
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(c.File), path)
		}
		paths = append(paths, path)
	}
	rules, err := policyfile.Read(policyfile.Input{Paths: paths})
	if err != nil {
		c.Wrong("policies", "%v", err)
		rules, err = policyfile.New()
	}
	if err != nil {
		return nil, err
	}
	for _, err := range rules.Invalid {
		c.Wrong("policies", "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.documented.Namespaces)) {
		at := "namespaces." + name
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			c.Wrong(at, "must be the name of a namespace: %s", strings.Join(wrong, "; "))
			continue
		}
		if rules.Namespaces[name].Labels != nil {
			c.Wrong(at, "is among the policies already")
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
func (c *checker) test(at string, t *test, rules *policyfile.Rules) (steps []*writer) {
	if len(t.Events) == 0 {
		c.Wrong(at+".events", "must have at least one Event")
	}
	wants := 0
	if t.Want != nil {
		wants++
		c.want(at+".want", &t.Want.want, t.Want.EtcdWrites != nil || t.Want.Notices != nil)
	}
	var begin time.Duration
	all := 0
	for i := range t.Events {
		here, s := fmt.Sprintf("%s.events[%d]", at, i), &t.Events[i]
		w := c.step(here, s, begin)
		if s.Want != nil {
			wants++
			c.want(here+".want", s.Want, false)
		}
		if w == nil {
			continue
		}
		w.step, begin = i, w.end()
		if begin > maxTime {
			c.Wrong(here+".every", "the last is %s after the beginning, and must be at most %.0fh", begin, maxTime.Hours())
			begin = 0
		}
		all += w.objects * w.times
		c.placed(here, w, rules)
		steps = append(steps, w)
	}
	if all > maxWrites {
		c.Wrong(at+".events", "has %d writes, objects times times, and must have at most %d", all, maxWrites)
	}
	if wants == 0 && len(t.Events) > 0 {
		c.Wrong(at+".want", "must be there, or in one of its events")
	}
	return steps
}

// placed checks the namespaces of a step, which are known from then on.
func (c *checker) placed(at string, w *writer, rules *policyfile.Rules) {
	field := at + ".event.namespace"
	if w.fullForm {
		field = at + ".object.metadata.namespace"
	}
	count := 1
	if w.moving {
		count = w.objects
	}
	for n := range count {
		e, err := w.event(n, 0)
		if err != nil {
			c.Wrong(at, "must be an Event with {n} and {i} replaced")
			return
		}
		if wrong := validation.IsDNS1123Label(e.Namespace); len(wrong) > 0 {
			c.Wrong(field, "%q: must be the name of a namespace: %s", e.Namespace, strings.Join(wrong, "; "))
			return
		}
		if rules.Namespaces[e.Namespace].Labels == nil {
			setLabels(rules, e.Namespace, nil)
		}
	}
}

// want checks what is wanted. more says that it holds something beside.
func (c *checker) want(at string, w *want, more bool) {
	if !more && *w == (want{}) {
		c.Wrong(at, "must have at least one of admitted, audited, combined, dropped, merged, policy, refusedBy, warningsDropped")
	}
	if w.Policy != nil {
		c.among(at+".policy", *w.Policy, c.known.policies)
	}
	if w.RefusedBy != nil {
		c.among(at+".refusedBy", *w.RefusedBy, c.known.refusers)
	}
	if w.Audited != nil {
		if *w.Audited == (counts{}) {
			c.Wrong(at+".audited", "must have at least one of admitted, dropped, merged, refusedBy")
		}
		if w.Audited.RefusedBy != nil {
			c.among(at+".audited.refusedBy", *w.Audited.RefusedBy, c.known.refusers)
		}
	}
}

// among checks that names are known.
func (c *checker) among(at string, all names, known []string) {
	for _, name := range all {
		if !slices.Contains(known, name) {
			c.Wrong(at, "%s", document.OneOf(name, known))
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
