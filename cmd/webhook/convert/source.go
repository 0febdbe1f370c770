package convert

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/document"
)

const (
	// configVersion is that of the plugin's configuration.
	configVersion = "eventratelimit.admission.k8s.io/v1alpha1"
	configKind    = "Configuration"
	// admissionVersion and admissionKind are those of the file that --admission-control-config-file names. API servers
	// read admissionAlpha too.
	admissionVersion = "apiserver.config.k8s.io/v1"
	admissionAlpha   = "apiserver.k8s.io/v1alpha1"
	admissionKind    = "AdmissionConfiguration"
	// plugin is the name of EventRateLimit in it.
	plugin = "EventRateLimit"
	// maxSkipped is how many parts are named that are passed over.
	maxSkipped = 10
	// maxNameBytes bounds a name that is said, which may be anything.
	maxNameBytes = 100
)

// source is the configuration of EventRateLimit, and the parts of the file around it that are passed over.
type source struct {
	*document.Document
	configuration

	path    string // the path of the configuration in the document
	skipped []string
}

// configuration is that of the plugin.
type configuration struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Limits     []limit `json:"limits"`
}

type limit struct {
	Type      string `json:"type"`
	QPS       int64  `json:"qps"`
	Burst     int64  `json:"burst"`
	CacheSize int64  `json:"cacheSize"`
}

// admissionFile is what --admission-control-config-file names.
type admissionFile struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Plugins    []struct {
		Name          string `json:"name"`
		Path          string `json:"path"`
		Configuration any    `json:"configuration"`
	} `json:"plugins"`
}

// findConfiguration finds the configuration in the file at path, or in standard input for -.
func findConfiguration(stdin io.Reader, path string) (*source, error) {
	content, err := document.Load(path, stdin)
	if err != nil {
		return nil, err
	}
	doc, err := document.ParseOne(document.DisplayName(path), content)
	if err != nil {
		return nil, err
	}
	if version, kind := document.TypeMeta(doc.Value); kind == admissionKind && (version == admissionVersion || version == admissionAlpha) {
		return findPlugin(doc, path)
	}
	return decode(doc, "", doc.Value, admissionKind)
}

// decode decodes a configuration that is in a document at a path, where there may be an object of another kind too, or of none.
func decode(doc *document.Document, at string, value any, other string) (*source, error) {
	s := &source{Document: doc, path: at}
	field := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	object, is := value.(map[string]any)
	version, kind := document.TypeMeta(value)
	switch {
	case !is:
		s.AddError(at, "must be an object, not %s", document.Format(value))
	case kind == configKind && version != configVersion:
		s.AddError(field("apiVersion"), "must be %s for kind %s, not %s", configVersion, kind, document.Format(object["apiVersion"]))
	case other == admissionKind && kind == other:
		s.AddError(field("apiVersion"), "must be %s for kind %s, not %s", admissionVersion, kind, document.Format(object["apiVersion"]))
	case kind != configKind:
		allowed := configKind + " of " + configVersion
		if other != "" {
			allowed += ", or " + admissionKind + " of " + admissionVersion
		}
		s.AddError(field("kind"), "must be %s, not %s", allowed, document.Format(object["kind"]))
	default:
		s.Decode(at, value, &s.configuration)
	}
	return s, s.Err()
}

// findPlugin finds it as API servers do: the first EventRateLimit counts, and its configuration before its path.
func findPlugin(doc *document.Document, path string) (*source, error) {
	var file admissionFile
	doc.Decode("", doc.Value, &file)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	found := -1
	var others []string
	for i, one := range file.Plugins {
		at := fmt.Sprintf("plugins[%d]", i)
		switch {
		case one.Name == plugin && found < 0:
			found = i
			if one.Configuration != nil && one.Path != "" {
				others = append(others, at+".path, as API servers read the configuration beside it")
			}
		case one.Name == plugin:
			others = append(others, fmt.Sprintf("%s, as API servers read the first %s", at, plugin))
		case one.Name == "":
			others = append(others, at)
		default:
			others = append(others, "plugin "+admission.Truncate(one.Name, maxNameBytes))
		}
	}
	if found < 0 {
		doc.AddError("plugins", "must have a plugin %s, with its path or configuration; %s", plugin, presentPlugins(others))
		return nil, doc.Err()
	}
	of, at := file.Plugins[found], fmt.Sprintf("plugins[%d]", found)
	var s *source
	var err error
	if of.Configuration != nil {
		s, err = decode(doc, at+".configuration", of.Configuration, "")
	} else {
		s, err = readReferenced(doc, at+".path", of.Path, path)
	}
	if err != nil {
		return nil, err
	}
	s.skipped = others
	return s, nil
}

// readReferenced reads the file of a name, which a document has at a path, from the folder of its own file if the name is relative.
func readReferenced(doc *document.Document, at, name, from string) (*source, error) {
	switch {
	case name == "":
		doc.AddError(at, "must be given, or a configuration beside it")
		return nil, doc.Err()
	case filepath.IsAbs(name):
	case from == document.StdinPath:
		doc.AddError(at, "must be absolute in %s, as it is relative to the folder of the file", document.Stdin)
		return nil, doc.Err()
	default:
		name = filepath.Join(filepath.Dir(from), name)
	}
	if name == document.StdinPath { // a file that is called so
		name = "./" + name
	}
	content, err := document.Load(name, nil)
	if err != nil {
		doc.AddError(at, "%v: if it is elsewhere, convert may be given that file itself", err)
		return nil, doc.Err()
	}
	config, err := document.ParseOne(name, content)
	if err != nil {
		return nil, err
	}
	return decode(config, "", config.Value, "")
}

// presentPlugins says which plugins a file has.
func presentPlugins(all []string) string {
	if len(all) == 0 {
		return "there is none"
	}
	return "there is " + joinFirst(all)
}

// joinFirst are the first of all, and how many more there are.
func joinFirst(all []string) string {
	if more := len(all) - maxSkipped; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxSkipped], ", "), more)
	}
	return strings.Join(all, ", ")
}
