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
	// maxTime is longer than any window, and longer than the bucket of a namespace takes to fill.
	maxTime = 72 * time.Hour
)

// suite is a valid test file with its policies.
type suite struct {
	doc   *document.Document
	tests []test
	steps [][]*stepWriter // of each test
	rules *policyfile.Rules
}

// readSuite reads a test file. Errors with lines are of type document.FieldErrors.
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
	var parsed suiteFile
	switch version, parsedKind := document.TypeMeta(doc.Value); {
	case version == apiVersion && parsedKind == kind:
		doc.Decode("", doc.Value, &parsed)
	case version != apiVersion:
		doc.AddError("apiVersion", "must be %s", apiVersion)
	default:
		doc.AddError("kind", "must be %s", kind)
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	c := &checker{Document: doc, file: &parsed}
	if len(parsed.Tests) == 0 {
		c.AddError("tests", "must have at least one test")
	}
	rules, err := c.policies()
	if err != nil {
		return nil, err
	}
	s := &suite{doc: doc, tests: parsed.Tests, rules: rules}
	seen := map[string]bool{}
	for i := range parsed.Tests {
		path, t := fmt.Sprintf("tests[%d]", i), &parsed.Tests[i]
		if t.Name == "" {
			c.AddError(path+".name", "is required: say what the test checks")
		} else if seen[t.Name] {
			c.AddError(path+".name", "%q: is already the name of another test", t.Name)
		}
		seen[t.Name] = true
		s.steps = append(s.steps, c.checkTest(path, t, rules))
	}
	return s, c.Err()
}

// checker checks a decoded test file.
type checker struct {
	*document.Document

	file      *suiteFile
	ruleNames *ruleNames
}

// policies reads the policies and namespaces of the file. All policies must be valid and in force.
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
		field := "namespaces." + name
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			c.AddError(field, "must be the name of a namespace: %s", strings.Join(problems, "; "))
			continue
		}
		if rules.Namespaces[name].Labels != nil {
			c.AddError(field, "is already defined in the policy files")
			continue
		}
		setLabels(rules, name, c.file.Namespaces[name])
	}
	c.ruleNames = ruleNamesOf(rules)
	return rules, nil
}

// setLabels sets the labels of a namespace, with the one that the API server adds.
func setLabels(rules *policyfile.Rules, name string, own map[string]string) {
	n := rules.Namespaces[name]
	n.Labels = labels.Merge(own, labels.Set{corev1.LabelMetadataName: name})
	rules.Namespaces[name] = n
}

// checkTest checks a test and returns the writers of its steps.
func (c *checker) checkTest(path string, t *test, rules *policyfile.Rules) (steps []*stepWriter) {
	if len(t.Events) == 0 {
		c.AddError(path+".events", "must have at least one Event")
	}
	wants := 0
	if t.Want != nil {
		wants++
		c.checkWant(path+".want", &t.Want.want, t.Want.EtcdWrites != nil || t.Want.Notices != nil)
	}
	var begin time.Duration
	writes := 0
	for i := range t.Events {
		stepPath, s := fmt.Sprintf("%s.events[%d]", path, i), &t.Events[i]
		w := c.checkStep(stepPath, s, begin)
		if s.Want != nil {
			wants++
			c.checkWant(stepPath+".want", s.Want, false)
		}
		if w == nil {
			continue
		}
		w.step, begin = i, w.end()
		if begin > maxTime {
			c.AddError(stepPath+".every", "the last write is %s after the start, must be at most %.0fh", begin, maxTime.Hours())
			begin = 0
		}
		writes += w.objects * w.times
		c.checkNamespaces(stepPath, w, rules)
		steps = append(steps, w)
	}
	if writes > maxWrites {
		c.AddError(path+".events", "has %d writes (objects times times), must have at most %d", writes, maxWrites)
	}
	if wants == 0 && len(t.Events) > 0 {
		c.AddError(path+".want", "is required for the test or for one of its Events")
	}
	return steps
}

// checkNamespaces checks the namespaces of a step and adds them to rules.
func (c *checker) checkNamespaces(path string, w *stepWriter, rules *policyfile.Rules) {
	field := path + ".event.namespace"
	if w.isObject {
		field = path + ".object.metadata.namespace"
	}
	count := 1
	if w.namespaceNumbered {
		count = w.objects
	}
	for n := range count {
		e, err := w.event(n, 0)
		if err != nil {
			c.AddError(path, "must be an Event with {n} and {i} replaced")
			return
		}
		if problems := validation.IsDNS1123Label(e.Namespace); len(problems) > 0 {
			c.AddError(field, "%q: must be the name of a namespace: %s", e.Namespace, strings.Join(problems, "; "))
			return
		}
		if rules.Namespaces[e.Namespace].Labels == nil {
			setLabels(rules, e.Namespace, nil)
		}
	}
}

// checkWant checks the expectations of a step or test. more says that there are other expectations besides w.
func (c *checker) checkWant(path string, w *want, more bool) {
	if !more && *w == (want{}) {
		c.AddError(path, "must have at least one of admitted, audited, combined, dropped, merged, policy, refusedBy, warningsDropped")
	}
	if w.Policy != nil {
		c.checkKnown(path+".policy", *w.Policy, c.ruleNames.policies)
	}
	if w.RefusedBy != nil {
		c.checkKnown(path+".refusedBy", *w.RefusedBy, c.ruleNames.refusers)
	}
	if w.Audited != nil {
		if *w.Audited == (counts{}) {
			c.AddError(path+".audited", "must have at least one of admitted, dropped, merged, refusedBy")
		}
		if w.Audited.RefusedBy != nil {
			c.checkKnown(path+".audited.refusedBy", *w.Audited.RefusedBy, c.ruleNames.refusers)
		}
	}
}

// checkKnown checks that every name is one of known.
func (c *checker) checkKnown(path string, wanted names, known []string) {
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			c.AddError(path, "%s", document.NotOneOf(name, known))
		}
	}
}

// ruleNames are the names that tests can use for policies, and for the limits and filters that refuse Events.
type ruleNames struct{ policies, refusers []string }

func ruleNamesOf(r *policyfile.Rules) *ruleNames {
	rules := policy.Rules{Policies: []*policy.Policy{policy.Default()}}
	rules.Add(r.Cluster)
	for _, n := range r.Namespaces {
		rules.Add(n.Rules)
	}
	found := &ruleNames{}
	for _, p := range rules.Policies {
		found.policies = append(found.policies, p.Name)
		switch {
		case p.Action == policy.Drop:
			found.refusers = append(found.refusers, p.Name)
		case p.Action == policy.Limit && p.SpamFilter.Enabled:
			found.refusers = append(found.refusers, "spam filter of "+p.Name)
		}
	}
	for _, q := range rules.Quotas {
		for i := range q.Limits {
			found.refusers = append(found.refusers, q.Limits[i].Name+" of "+q.Name)
		}
	}
	slices.Sort(found.policies)
	slices.Sort(found.refusers)
	return found
}
