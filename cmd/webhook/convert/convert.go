// Package convert is the command that turns an EventRateLimit configuration into a quota.
package convert

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// configVersion is that of the plugin's configuration.
	configVersion = "eventratelimit.admission.k8s.io/v1alpha1"
	// configBytes bounds a file: one of eight limits has some hundred bytes.
	configBytes = 1 << 20
	// maxBucket and maxLimits are what the schema of quotas allows.
	maxBucket = 1_000_000 // burst, and tokens
	maxLimits = 8
	// namePrefix keeps the names of limits apart from others, which they would replace or be replaced by.
	namePrefix = "eventratelimit-"
)

// comment precedes the quota.
const comment = `# The limits of an EventRateLimit configuration, made by eventquota convert.
# They are for the whole cluster; EventRateLimit has them for each API server.
# They are for Events of events.k8s.io too, which EventRateLimit lets pass.
# Policies merge Events before, the built-in default too: what is merged takes no token.
# A cacheSize has no counterpart, and is left out.
`

// configuration is that of the plugin, whose own type is in k8s.io/kubernetes, which is no library.
type configuration struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Limits     []limit `json:"limits"`
}

// limit has wider numbers than the plugin's, so that one out of bounds is shown as it was given.
type limit struct {
	Type      string `json:"type"`
	QPS       int64  `json:"qps"`
	Burst     int64  `json:"burst"`
	CacheSize int64  `json:"cacheSize"`
}

// options are the flags of convert.
type options struct {
	Name   string
	Output string
}

// Command is eventquota convert.
func Command() *cobra.Command {
	o := &options{Name: "eventratelimit", Output: output.YAML}
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert an EventRateLimit configuration into a quota",
		Long: `Convert reads the configuration of kube-apiserver's EventRateLimit plugin and
prints a ClusterEventQuota with the same limits.

FILE is a Configuration of eventratelimit.admission.k8s.io/v1alpha1, which the
API server's AdmissionConfiguration names or has in it; - reads standard input.

A limit of type Server becomes one bucket for the whole cluster; the others have one
for each namespace, user, or source and object. EventRateLimit counts in each API
server for itself, and lets Events of events.k8s.io pass; the quota has one count for
all API servers, and limits those Events too. The policies that govern merge and limit
Events beside it, the built-in default too; what is merged takes no token.`,
		Example: `  eventquota convert /etc/kubernetes/eventratelimit.yaml | kubectl apply -f -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("convert: must be given one file, or - for standard input, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if wrong := validation.IsDNS1123Subdomain(o.Name); len(wrong) > 0 {
				return fmt.Errorf("--name %q: %s", o.Name, strings.Join(wrong, "; "))
			}
			if err := o.run(cmd.InOrStdin(), cmd.OutOrStdout(), args[0]); err != nil {
				return fmt.Errorf("convert: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", o.Name, "name of the quota")
	output.OneOf(cmd, &o.Output, "output", "o", []string{output.YAML, output.JSON}, "format of the quota, yaml or json")
	return cmd
}

func (o *options) run(stdin io.Reader, out io.Writer, path string) error {
	in, name := stdin, "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // what was read is known already
		in, name = file, path
	}
	from, err := read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	limits, errs := from.convert()
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	quota := struct { // without a status, as users apply it
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string `json:"metadata"`
		Spec            v1alpha1.Budget   `json:"spec"`
	}{Metadata: map[string]string{"name": o.Name}, Spec: v1alpha1.Budget{Limits: limits}}
	quota.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterEventQuota))
	if o.Output == output.YAML {
		fmt.Fprint(out, comment)
	}
	_, err = output.Write(out, o.Output, quota)
	return err
}

// read reads a configuration. It fails on a file that is too long, or without end.
func read(in io.Reader) (*configuration, error) {
	bounded := &io.LimitedReader{R: in, N: configBytes + 1}
	var found []configuration
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
		var c configuration
		unknown, err := json.UnmarshalStrict(object, &c)
		if err := errors.Join(append(unknown, err)...); err != nil {
			return nil, text.OneLine(err)
		}
		if c.APIVersion != "" || c.Kind != "" || c.Limits != nil { // and not only comments
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("must hold one YAML document, not %d", len(found))
	}
	if c := &found[0]; c.APIVersion != configVersion || c.Kind != "Configuration" {
		return nil, fmt.Errorf("kind %q of %q: must be Configuration of %s", c.Kind, c.APIVersion, configVersion)
	}
	return &found[0], nil
}

// known is what becomes of a type of limit.
func known() map[string]v1alpha1.Limit {
	return map[string]v1alpha1.Limit{
		"Server":          {Name: "server"},
		"Namespace":       {Name: "namespace", Per: []v1alpha1.KeyPart{"Namespace"}},
		"User":            {Name: "user", Per: []v1alpha1.KeyPart{"User"}},
		"SourceAndObject": {Name: "source-and-object", Per: []v1alpha1.KeyPart{"Source", "InvolvedObject"}},
	}
}

// convert returns limits of the same effect. Each error names a field.
func (c *configuration) convert() (limits []v1alpha1.Limit, errs field.ErrorList) {
	at, of := field.NewPath("limits"), map[string]int{} // how many there are of each type
	if n := len(c.Limits); n < 1 || n > maxLimits {
		return nil, field.ErrorList{field.Invalid(at, n, fmt.Sprintf("must be at least 1 and at most %d limits", maxLimits))}
	}
	for i, l := range c.Limits {
		limit, ok := known()[l.Type]
		if !ok {
			errs = append(errs, field.NotSupported(at.Index(i).Child("type"), l.Type, slices.Sorted(maps.Keys(known()))))
		}
		check := func(name string, n int64) {
			if n < 1 || n > maxBucket {
				errs = append(errs, field.Invalid(at.Index(i).Child(name), n, fmt.Sprintf("must be at least 1 and at most %d", maxBucket)))
			}
		}
		check("qps", l.QPS)
		check("burst", l.Burst)
		limit.Name = namePrefix + limit.Name
		if of[l.Type]++; of[l.Type] > 1 {
			limit.Name += fmt.Sprint("-", of[l.Type])
		}
		limit.Burst, limit.Tokens, limit.WarningReservePercent = int32(l.Burst), int32(l.QPS), new(int32)
		limit.Interval = &v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Second}}
		limits = append(limits, limit)
	}
	return limits, errs
}
