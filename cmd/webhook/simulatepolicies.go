package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// policySet is one set of policies to run.
type policySet struct {
	name     string
	policies *policy.Set
}

// defaultSet is how --compare names the built-in default.
const defaultSet = "default"

// sets are the sets of policies that the flags ask for, the one to judge first.
func (o *simulateOptions) sets(ctx context.Context) ([]policySet, error) {
	first, err := readPolicies(o.Policies)
	name := strings.Join(o.Policies, ",")
	switch {
	case err != nil:
		return nil, fmt.Errorf("--policies: %w", err)
	case o.Kubeconfig != "":
		if first, err = clusterPolicies(ctx, o.Kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		name = "the cluster of " + o.Kubeconfig
	case name == "":
		name = defaultSet
	}
	sets := []policySet{{name, first.set()}}
	if len(o.Compare) == 0 {
		return sets, nil
	}
	paths := slices.Clone(o.Compare)
	if slices.Equal(paths, []string{defaultSet}) {
		paths = nil
	}
	second, err := readPolicies(paths)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	if len(second.namespaces) == 0 { // they are not what is compared
		second.namespaces = first.namespaces
	}
	return append(sets, policySet{strings.Join(o.Compare, ","), second.set()}), nil
}

// policyFiles collects policies, and namespaces by their labels.
type policyFiles struct {
	decoder    runtime.Decoder
	compiler   *policy.Compiler
	known      map[policy.Identity]bool
	cluster    []*policy.Policy
	own        map[string][]*policy.Policy
	namespaces map[string]labels.Set
}

func newPolicyFiles() (*policyFiles, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	return &policyFiles{
		decoder:  serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(),
		compiler: compiler, known: map[policy.Identity]bool{},
		own: map[string][]*policy.Policy{}, namespaces: map[string]labels.Set{},
	}, nil
}

// readPolicies reads files and directories.
func readPolicies(paths []string) (*policyFiles, error) {
	p, err := newPolicyFiles()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		files, err := filesAt(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := p.readFile(file); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return p, nil
}

// filesAt is the file at path or, of a directory, those in it that may hold
// policies, as kubectl apply -f has it.
func filesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if err == nil && len(files) == 0 {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file in it", path)
	}
	return files, err
}

func (p *policyFiles) readFile(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = p.decode(document)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

// decode takes in a document: an object, a list of them, or nothing.
func (p *policyFiles) decode(document []byte) error {
	asJSON, err := utilyaml.ToJSON(document)
	if err != nil {
		return oneLine(err)
	}
	if bytes.Equal(bytes.TrimSpace(asJSON), []byte("null")) {
		return nil
	}
	object, _, err := p.decoder.Decode(document, nil, nil)
	if err != nil {
		return oneLine(err)
	}
	return p.take(object)
}

func (p *policyFiles) take(object runtime.Object) error {
	switch o := object.(type) {
	case *v1alpha1.EventPolicy:
		if o.Namespace == "" {
			return fmt.Errorf("EventPolicy %s: %w", o.Name, field.Required(field.NewPath("metadata", "namespace"), "it governs one namespace"))
		}
		compiled, errs := p.compiler.EventPolicy(o)
		return p.keep(v1alpha1.KindEventPolicy, o, compiled, errs)
	case *v1alpha1.ClusterEventPolicy:
		compiled, errs := p.compiler.ClusterEventPolicy(o)
		return p.keep(v1alpha1.KindClusterEventPolicy, o, compiled, errs)
	case *corev1.Namespace:
		p.namespaces[o.Name] = labels.Set(o.Labels)
		return nil
	case *corev1.List:
		for i := range o.Items {
			if err := p.decode(o.Items[i].Raw); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	return fmt.Errorf("kind %s: must be EventPolicy, ClusterEventPolicy, Namespace or List of them",
		object.GetObjectKind().GroupVersionKind().Kind)
}

// keep takes in a policy, or says what is wrong with it.
func (p *policyFiles) keep(kind string, o metav1.Object, compiled *policy.Policy, errs field.ErrorList) error {
	identity := policy.Identity{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	if o.GetName() == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), ""))
	}
	if p.known[identity] {
		errs = append(errs, field.Duplicate(field.NewPath("metadata", "name"), o.GetName()))
	}
	if len(errs) > 0 {
		return fmt.Errorf("%s: %w", identity, oneLine(errs.ToAggregate()))
	}
	p.known[identity] = true
	if identity.Namespace == "" {
		p.cluster = append(p.cluster, compiled)
		return nil
	}
	p.own[identity.Namespace] = append(p.own[identity.Namespace], compiled)
	return nil
}

// set is all that was taken in.
func (p *policyFiles) set() *policy.Set {
	namespaces := map[string]policy.Namespace{}
	for name, ls := range p.namespaces {
		// The API server sets it.
		all := labels.Merge(ls, labels.Set{corev1.LabelMetadataName: name})
		namespaces[name] = policy.Namespace{Labels: all, Policies: p.own[name]}
	}
	for name, own := range p.own {
		if _, known := p.namespaces[name]; !known {
			namespaces[name] = policy.Namespace{Policies: own}
		}
	}
	fallback := policy.Default()
	return policy.NewSet(&fallback, p.cluster, namespaces)
}

// oneLine is an error that may have several.
func oneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
