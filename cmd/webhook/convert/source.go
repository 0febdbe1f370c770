package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/eventquota/eventquota/admission"
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
	// stdinPath is the path that stands for standard input, and stdinName what errors call it.
	stdinPath = "-"
	stdinName = "standard input"
	// maxPassedOver is how many parts are named that are passed over.
	maxPassedOver = 10
	// nameBytes bounds a name that is said, which may be anything.
	nameBytes = 100
)

// source is the configuration of EventRateLimit, and the parts of the file around it that are passed over.
type source struct {
	object

	passedOver []string
}

// find finds the configuration in the file at path, or in standard input for -.
func find(stdin io.Reader, path string) (source, error) {
	var v value
	var err error
	if path == stdinPath {
		v, err = read(stdinName, stdin)
	} else {
		v, err = readFile(path)
	}
	if err != nil {
		return source{}, err
	}
	o := v.object()
	kind, version := o.kind()
	switch {
	case kind == configKind && version == configVersion:
		return source{object: o}, nil
	case kind == admissionKind && (version == admissionVersion || version == admissionAlpha):
		return o.findPlugin(path)
	}
	o.otherKind(kind, version, fmt.Sprintf(", or %s of %s", admissionKind, admissionVersion))
	return source{}, o.err()
}

// readFile reads the file at path.
func readFile(path string) (value, error) {
	file, err := os.Open(path)
	if err != nil {
		return value{}, err
	}
	defer func() { _ = file.Close() }() // what was read is known already
	return read(path, file)
}

// kind is the kind of an object, and its version.
func (o object) kind() (kind, version string) {
	kind, _ = o.get("kind").text()
	version, _ = o.get("apiVersion").text()
	return kind, version
}

// otherKind notes that an object is no configuration, nor what else it may be. An object that is none is said to be none.
func (o object) otherKind(kind, version, others string) {
	if len(o.mistakes) == 0 {
		o.wrong("kind %q of %q: must be %s of %s%s", kind, version, configKind, configVersion, others)
	}
}

// findPlugin finds it as API servers do: the first EventRateLimit counts, and its configuration before its path.
func (o object) findPlugin(path string) (source, error) {
	o.only("apiVersion", "kind", "plugins")
	var found *object
	var others []string
	for _, one := range o.get("plugins").items() {
		entry := one.object()
		entry.only("name", "path", "configuration")
		name, _ := entry.get("name").text()
		entry.get("path").text() // it must be one in each
		switch {
		case name == plugin && found == nil:
			found = &entry
		case name == plugin:
			others = append(others, fmt.Sprintf("%s, as API servers read the first %s", one.at, plugin))
		case name == "":
			others = append(others, one.at.String())
		default:
			others = append(others, "plugin "+admission.Truncate(name, nameBytes))
		}
	}
	if err := o.err(); err != nil {
		return source{}, err
	}
	if found == nil {
		o.get("plugins").wrong("must have a plugin %s, with its path or configuration; %s", plugin, there(others))
		return source{}, o.err()
	}
	inline, file := found.get("configuration"), found.get("path")
	if inline.node != nil && file.node != nil {
		others = append(others, fmt.Sprintf("%s, as API servers read the configuration beside it", file.at))
	}
	config, err := inline, error(nil)
	if inline.node == nil {
		config, err = file.follow(path)
	}
	if err != nil {
		return source{}, err
	}
	s := source{config.object(), others}
	if kind, version := s.kind(); kind != configKind || version != configVersion {
		s.otherKind(kind, version, "")
	}
	return s, s.err()
}

// follow reads the file that v names, from the folder of the file at path if its name is relative.
func (v value) follow(path string) (value, error) {
	name, _ := v.text()
	switch {
	case name == "":
		v.wrong("must be given, or a configuration beside it")
		return value{}, v.err()
	case filepath.IsAbs(name):
	case path == stdinPath:
		v.wrong("must be absolute in %s, as it is relative to the folder of the file", stdinName)
		return value{}, v.err()
	default:
		name = filepath.Join(filepath.Dir(path), name)
	}
	config, err := readFile(name)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		v.wrong("%v: if it is elsewhere, convert may be given that file itself", err)
		err = v.err()
	}
	return config, err
}

// there says which plugins a file has.
func there(all []string) string {
	if len(all) == 0 {
		return "there is none"
	}
	return "there is " + listed(all)
}

// listed are the first of all, and how many more there are.
func listed(all []string) string {
	if more := len(all) - maxPassedOver; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:maxPassedOver], ", "), more)
	}
	return strings.Join(all, ", ")
}
