package convert

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
)

const (
	// limitsVersion is that of the configuration.
	limitsVersion = "eventratelimit.admission.k8s.io/v1alpha1"
	// pluginName is what an AdmissionConfiguration calls the plugin.
	pluginName = "EventRateLimit"
	// stdinPath stands for standard input. As a path its directory is the working directory.
	stdinPath = "-"
	// configBytes bounds a file: one of eight limits has some hundred bytes.
	configBytes = 1 << 20
)

// configuration is the configuration of the EventRateLimit plugin. The plugin's own type is in k8s.io/kubernetes,
// which is no library.
type configuration struct {
	metav1.TypeMeta `json:",inline"`

	Limits []rateLimit `json:"limits"`
}

// rateLimit is one limit. Its numbers are wider than those of the plugin, so that one out of bounds is known when it
// is reported.
type rateLimit struct {
	Type      string `json:"type"`
	QPS       int64  `json:"qps"`
	Burst     int64  `json:"burst"`
	CacheSize int64  `json:"cacheSize"`
}

// DeepCopyObject implements runtime.Object.
func (c *configuration) DeepCopyObject() runtime.Object {
	return &configuration{TypeMeta: c.TypeMeta, Limits: slices.Clone(c.Limits)}
}

// decode is the object in content, which is JSON; of a kind that convert does not read, it is a
// runtime.Unknown.
func decode(content []byte) (runtime.Object, error) {
	scheme := runtime.NewScheme()
	if err := apiserverv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypeWithName(schema.FromAPIVersionAndKind(limitsVersion, "Configuration"), &configuration{})
	object, kind, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(content, nil, nil)
	switch {
	case kind == nil:
		return nil, errors.New("must be an object")
	case runtime.IsNotRegisteredError(err), runtime.IsMissingKind(err), runtime.IsMissingVersion(err):
		return &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind.Kind}}, nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		must := map[reflect.Kind]string{reflect.Slice: "a list", reflect.Struct: "an object", reflect.Int64: "an integer"}
		return nil, fmt.Errorf("%s: must be %s, not %s", wrong.Field, cmp.Or(must[wrong.Type.Kind()], "a string"), wrong.Value)
	}
	if err != nil {
		return nil, text.OneLine(err)
	}
	return object, nil
}

// wrongKind says that an object must be a configuration, or something else.
func wrongKind(at *field.Path, object runtime.Object, or string) error {
	return field.Invalid(at.Child("kind"), object.GetObjectKind().GroupVersionKind().Kind, "must be Configuration of "+limitsVersion+or)
}

// decodeFile is the one object in the file at path, or in stdin. It fails on a file that is too long, or without end.
func decodeFile(path string, stdin io.Reader) (runtime.Object, error) {
	if path != stdinPath {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // what was read is known already
		stdin = file
	}
	bounded := &io.LimitedReader{R: stdin, N: configBytes + 1}
	var objects [][]byte
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bounded)); ; {
		document, err := documents.Read()
		if bounded.N == 0 {
			return nil, fmt.Errorf("must have at most %d bytes", configBytes)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		object, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("must be YAML or JSON: %w", text.OneLine(err))
		}
		if string(object) != "null" {
			objects = append(objects, object)
		}
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("must hold one YAML document, not %d", len(objects))
	}
	return decode(objects[0])
}

// convertFile converts the limits that a file has, or another file that it names.
func convertFile(path string, stdin io.Reader) (*conversion, error) {
	object, err := decodeFile(path, stdin)
	if err != nil {
		return nil, err
	}
	switch object := object.(type) {
	case *configuration:
		return convertLimits(nil, object)
	case *apiserverv1.AdmissionConfiguration:
		return convertPlugin(filepath.Dir(path), object)
	}
	return nil, wrongKind(nil, object, ", or AdmissionConfiguration of "+apiserverv1.SchemeGroupVersion.String())
}

// convertPlugin converts the limits that an AdmissionConfiguration has. Paths in it are relative to dir.
func convertPlugin(dir string, all *apiserverv1.AdmissionConfiguration) (*conversion, error) {
	at := field.NewPath("plugins")
	isIt := func(p apiserverv1.AdmissionPluginConfiguration) bool { return p.Name == pluginName }
	found := slices.IndexFunc(all.Plugins, isIt)
	if found < 0 {
		return nil, field.Required(at, "one must have the name "+pluginName)
	}
	if again := slices.IndexFunc(all.Plugins[found+1:], isIt); again >= 0 {
		return nil, field.Forbidden(at.Index(found+1+again).Child("name"),
			fmt.Sprintf("%s must be there once; the API server reads %s only", pluginName, at.Index(found)))
	}
	plugin, at := all.Plugins[found], at.Index(found)
	if plugin.Configuration != nil { // which goes before the path
		at = at.Child("configuration")
		object, err := decode(plugin.Configuration.Raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		return convertLimits(at, object)
	}
	if plugin.Path == "" {
		return nil, field.Required(at, "must have configuration, or path to a file with one")
	}
	path := plugin.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	at = at.Child("path")
	object, err := decodeFile(path, strings.NewReader("")) // a file named - is empty
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	converted, err := convertLimits(nil, object)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", at, path, err)
	}
	return converted, nil
}
