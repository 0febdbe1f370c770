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
	steps [][]*stepWriter // of each test
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
	doc, err := document.ParseOne(name, content)
	if err != nil {
		return nil, err
	}
	var of suiteFile
	switch version, is := document.TypeMeta(doc.Value); {
	case version == apiVersion && is == kind:
		doc.Decode("", doc.Value, &of)
	case version != apiVersion:
		doc.AddError("apiVersion", "must be %s", apiVersion)
	default:
		doc.AddError("kind", "must be %s", kind)
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	c := &checker{Document: doc, file: &of}
	if len(of.Tests) == 0 {
		c.AddError("tests", "must have at least one test")
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
			c.AddError(at+".name", "must say what the test holds")
		} else if seen[t.Name] {
			c.AddError(at+".name", "%q: must not be the name of another test too", t.Name)
		}
		seen[t.Name] = true
		s.steps = append(s.steps, c.checkTest(at, t, rules))
	}
	return s, c.Err()
}

// checker finds what is wrong with a file that can be decoded.
type checker struct {
	*document.Document

	file      *suiteFile
	ruleNames *ruleNames
}

// policies reads the policies of the file, and the labels of namespaces. All must be valid and in force.
func (c *checker) policies() (*policyfile.Rules, error) {
	var paths []string
	for i, path := range c.file.Policies {
		if path == "" {
			c.AddError(fmt.Sprintf("policies[%d]", i), "must be a file or directory")
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(c.File), path)
		}
		paths = append(paths, path)
	}
	rules, err := policyfile.Read(policyfile.Input{Paths: paths})
	if err != nil {
		c.AddError("policies", "%v", err)
		rules, err = policyfile.New()
	}
	if err != nil {
		return nil, err
	}
	for _, err := range rules.Invalid {
		c.AddError("policies", "%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.file.Namespaces)) {
		at := "namespaces." + name
		if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
			c.AddError(at, "must be the name of a namespace: %s", strings.Join(wrong, "; "))
			continue
		}
		if rules.Namespaces[name].Labels != nil {
			c.AddError(at, "is among the policies already")
			continue
		}
		setLabels(rules, name, c.file.Namespaces[name])
	}
	c.ruleNames = ruleNamesOf(rules)
	return rules, nil
}

// setLabels makes a namespace known, with the label that the API server gives it.
func setLabels(rules *policyfile.Rules, name string, has map[string]string) {
	n := rules.Namespaces[name]
	n.Labels = labels.Merge(has, labels.Set{corev1.LabelMetadataName: name})
	rules.Namespaces[name] = n
}

// checkTest checks a test, and returns what its steps write.
func (c *checker) checkTest(at string, t *test, rules *policyfile.Rules) (steps []*stepWriter) {
	if len(t.Events) == 0 {
		c.AddError(at+".events", "must have at least one Event")
	}
	wants := 0
	if t.Want != nil {
		wants++
		c.checkWant(at+".want", &t.Want.want, t.Want.EtcdWrites != nil || t.Want.Notices != nil)
	}
	var begin time.Duration
	all := 0
	for i := range t.Events {
		here, s := fmt.Sprintf("%s.events[%d]", at, i), &t.Events[i]
		w := c.checkStep(here, s, begin)
		if s.Want != nil {
			wants++
			c.checkWant(here+".want", s.Want, false)
		}
		if w == nil {
			continue
		}
		w.step, begin = i, w.end()
		if begin > maxTime {
			c.AddError(here+".every", "the last is %s after the beginning, and must be at most %.0fh", begin, maxTime.Hours())
			begin = 0
		}
		all += w.objects * w.times
		c.checkNamespaces(here, w, rules)
		steps = append(steps, w)
	}
	if all > maxWrites {
		c.AddError(at+".events", "has %d writes, objects times times, and must have at most %d", all, maxWrites)
	}
	if wants == 0 && len(t.Events) > 0 {
		c.AddError(at+".want", "must be there, or in one of its events")
	}
	return steps
}

// checkNamespaces checks the namespaces of a step, which are known from then on.
func (c *checker) checkNamespaces(at string, w *stepWriter, rules *policyfile.Rules) {
	field := at + ".event.namespace"
	if w.isObject {
		field = at + ".object.metadata.namespace"
	}
	count := 1
	if w.namespaceNumbered {
		count = w.objects
	}
	for n := range count {
		e, err := w.event(n, 0)
		if err != nil {
			c.AddError(at, "must be an Event with {n} and {i} replaced")
			return
		}
		if wrong := validation.IsDNS1123Label(e.Namespace); len(wrong) > 0 {
			c.AddError(field, "%q: must be the name of a namespace: %s", e.Namespace, strings.Join(wrong, "; "))
			return
		}
		if rules.Namespaces[e.Namespace].Labels == nil {
			setLabels(rules, e.Namespace, nil)
		}
	}
}

// checkWant checks what is wanted. more says that it holds something beside.
func (c *checker) checkWant(at string, w *want, more bool) {
	if !more && *w == (want{}) {
		c.AddError(at, "must have at least one of admitted, audited, combined, dropped, merged, policy, refusedBy, warningsDropped")
	}
	if w.Policy != nil {
		c.checkKnown(at+".policy", *w.Policy, c.ruleNames.policies)
	}
	if w.RefusedBy != nil {
		c.checkKnown(at+".refusedBy", *w.RefusedBy, c.ruleNames.refusers)
	}
	if w.Audited != nil {
		if *w.Audited == (counts{}) {
			c.AddError(at+".audited", "must have at least one of admitted, dropped, merged, refusedBy")
		}
		if w.Audited.RefusedBy != nil {
			c.checkKnown(at+".audited.refusedBy", *w.Audited.RefusedBy, c.ruleNames.refusers)
		}
	}
}

// checkKnown checks that names are known.
func (c *checker) checkKnown(at string, all names, known []string) {
	for _, name := range all {
		if !slices.Contains(known, name) {
			c.AddError(at, "%s", document.NotOneOf(name, known))
		}
	}
}

// ruleNames are the names that rules have in wants.
type ruleNames struct{ policies, refusers []string }

func ruleNamesOf(r *policyfile.Rules) *ruleNames {
	all := policy.Rules{Policies: []*policy.Policy{policy.Default()}}
	all.Add(r.Cluster)
	for _, n := range r.Namespaces {
		all.Add(n.Rules)
	}
	k := &ruleNames{}
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
