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
	// configVersion and configKind identify the configuration of the plugin.
	configVersion = "eventratelimit.admission.k8s.io/v1alpha1"
	configKind    = "Configuration"
	// admissionVersion and admissionKind identify the file that --admission-control-config-file names. API servers also
	// accept admissionAlpha.
	admissionVersion = "apiserver.config.k8s.io/v1"
	admissionAlpha   = "apiserver.k8s.io/v1alpha1"
	admissionKind    = "AdmissionConfiguration"
	// plugin is the name of EventRateLimit in that file.
	plugin = "EventRateLimit"
	// maxSkipped bounds how many skipped parts a message lists.
	maxSkipped = 10
	// maxNameBytes bounds a name in a message. Names in files are arbitrary.
	maxNameBytes = 100
)

// source is the configuration of EventRateLimit and the skipped parts of its file.
type source struct {
	*document.Document
	configuration

	path    string // the path of the configuration in the document
	skipped []string
}

// configuration is the configuration of the plugin.
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

// admissionFile is the AdmissionConfiguration that --admission-control-config-file names.
type admissionFile struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Plugins    []struct {
		Name          string `json:"name"`
		Path          string `json:"path"`
		Configuration any    `json:"configuration"`
	} `json:"plugins"`
}

// findConfiguration finds the configuration of the plugin in the file at path, or in standard input if path is -.
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

// decode decodes the configuration at a path of a document. Error messages name other as a second allowed kind, unless empty.
func decode(doc *document.Document, path string, value any, other string) (*source, error) {
	s := &source{Document: doc, path: path}
	field := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	object, ok := value.(map[string]any)
	version, kind := document.TypeMeta(value)
	switch {
	case !ok:
		s.AddError(path, "must be an object, not %s", document.Format(value))
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
		s.Decode(path, value, &s.configuration)
	}
	return s, s.Err()
}

// findPlugin finds the plugin as API servers do: the first EventRateLimit counts, and configuration takes precedence over path.
func findPlugin(doc *document.Document, path string) (*source, error) {
	var file admissionFile
	doc.Decode("", doc.Value, &file)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	found := -1
	var others []string
	for i, entry := range file.Plugins {
		field := fmt.Sprintf("plugins[%d]", i)
		switch {
		case entry.Name == plugin && found < 0:
			found = i
			if entry.Configuration != nil && entry.Path != "" {
				others = append(others, field+".path, because API servers use its configuration")
			}
		case entry.Name == plugin:
			others = append(others, fmt.Sprintf("%s, because API servers use the first %s", field, plugin))
		case entry.Name == "":
			others = append(others, field)
		default:
			others = append(others, "plugin "+admission.Truncate(entry.Name, maxNameBytes))
		}
	}
	if found < 0 {
		doc.AddError("plugins", "must have a plugin %s with a path or configuration; found %s", plugin, presentPlugins(others))
		return nil, doc.Err()
	}
	used, field := file.Plugins[found], fmt.Sprintf("plugins[%d]", found)
	var s *source
	var err error
	if used.Configuration != nil {
		s, err = decode(doc, field+".configuration", used.Configuration, "")
	} else {
		s, err = readReferenced(doc, field+".path", used.Path, path)
	}
	if err != nil {
		return nil, err
	}
	s.skipped = others
	return s, nil
}

// readReferenced reads the file that the field at path names. A relative name is relative to the directory of from.
func readReferenced(doc *document.Document, path, name, from string) (*source, error) {
	switch {
	case name == "":
		doc.AddError(path, "is required if there is no configuration")
		return nil, doc.Err()
	case filepath.IsAbs(name):
	case from == document.StdinPath:
		doc.AddError(path, "must be absolute in %s: a relative path needs the directory of the file", document.Stdin)
		return nil, doc.Err()
	default:
		name = filepath.Join(filepath.Dir(from), name)
	}
	if name == document.StdinPath { // a file named -
		name = "./" + name
	}
	content, err := document.Load(name, nil)
	if err != nil {
		doc.AddError(path, "%v: if the file is elsewhere, pass it to convert directly", err)
		return nil, doc.Err()
	}
	config, err := document.ParseOne(name, content)
	if err != nil {
		return nil, err
	}
	return decode(config, "", config.Value, "")
}

// presentPlugins lists the plugins of a file.
func presentPlugins(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return joinFirst(all)
}

// joinFirst joins the first maxSkipped of all, and counts the others.
func joinFirst(all []string) string {
	if more := len(all) - maxSkipped; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxSkipped], ", "), more)
	}
	return strings.Join(all, ", ")
}
