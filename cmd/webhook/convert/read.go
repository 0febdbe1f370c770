package convert

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What convert reads.
const (
	limitsKind     = "Configuration"
	limitsVersion  = "eventratelimit.admission.k8s.io/v1alpha1"
	pluginsKind    = "AdmissionConfiguration"
	pluginsVersion = "apiserver.config.k8s.io/v1"
	pluginName     = "EventRateLimit"

	// configBytes bounds a file: one of eight limits has some hundred bytes.
	configBytes = 1 << 20
)

// typeMeta says what an object is.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// rateLimits is the configuration of the EventRateLimit plugin.
type rateLimits struct {
	typeMeta
	Limits []rateLimit `json:"limits"`
}

// rateLimit is one limit. Its numbers are wider than those of the plugin, so
// that one out of bounds is known when it is reported.
type rateLimit struct {
	Type      string `json:"type"`
	QPS       int64  `json:"qps"`
	Burst     int64  `json:"burst"`
	CacheSize int64  `json:"cacheSize"`
}

// pluginConfigs is kube-apiserver's --admission-control-config-file.
type pluginConfigs struct {
	typeMeta
	Plugins []pluginConfig `json:"plugins"`
}

type pluginConfig struct {
	Name string `json:"name"`
	// Path is relative to the file it is in.
	Path string `json:"path"`
	// Configuration goes before Path.
	Configuration jsontext.Value `json:"configuration"`
}

// stdinPath stands for standard input. As a path its directory is the working directory.
const stdinPath = "-"

// readConfig reads the file at path, or stdin, and fails on one that is too long, or without end.
func readConfig(path string, stdin io.Reader) ([]byte, error) {
	if path != stdinPath {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // what was read is known already
		stdin = file
	}
	content, err := io.ReadAll(io.LimitReader(stdin, configBytes+1))
	if err == nil && len(content) > configBytes {
		return nil, fmt.Errorf("must have at most %d bytes", configBytes)
	}
	return content, err
}

// convertFile converts the limits that a file has, or another file that it names.
func convertFile(path string, stdin io.Reader) (*conversion, error) {
	content, err := decodeFile(path, stdin)
	if err != nil {
		return nil, err
	}
	kind, err := kindOf(nil, content, map[string]string{limitsKind: limitsVersion, pluginsKind: pluginsVersion})
	if err != nil {
		return nil, err
	}
	if kind == limitsKind {
		return convertLimits(nil, content)
	}
	return convertPlugin(filepath.Dir(path), content)
}

// convertPlugin converts the limits that an AdmissionConfiguration has. Paths in it are relative to dir.
func convertPlugin(dir string, content jsontext.Value) (*conversion, error) {
	var all pluginConfigs
	if err := decodeStrictly(nil, content, &all); err != nil {
		return nil, err
	}
	at, found := field.NewPath("plugins"), -1
	for i, p := range all.Plugins {
		if p.Name != pluginName {
			continue
		}
		if found >= 0 {
			return nil, field.Forbidden(at.Index(i).Child("name"),
				fmt.Sprintf("%s must be there once; the API server reads %s only", pluginName, at.Index(found)))
		}
		found = i
	}
	if found < 0 {
		return nil, field.Required(at, "one must have the name "+pluginName)
	}
	plugin, at := all.Plugins[found], at.Index(found)
	if len(plugin.Configuration) > 0 && plugin.Configuration.Kind() != 'n' {
		return limitsAt(at.Child("configuration"), plugin.Configuration)
	}
	if plugin.Path == "" {
		return nil, field.Required(at, "must have configuration, or path to a file with one")
	}
	path := plugin.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	content, err := decodeFile(path, strings.NewReader("")) // a file named - is empty
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.Child("path"), err)
	}
	converted, err := limitsAt(nil, content)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", at.Child("path"), path, err)
	}
	return converted, nil
}

func limitsAt(at *field.Path, content jsontext.Value) (*conversion, error) {
	if _, err := kindOf(at, content, map[string]string{limitsKind: limitsVersion}); err != nil {
		return nil, err
	}
	return convertLimits(at, content)
}
