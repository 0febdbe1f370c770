// Package convert is the command that converts an EventRateLimit configuration to a quota.
package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// maxBucket and maxLimits are bounds of the schema of quotas.
	maxBucket = 1_000_000 // burst, and tokens
	maxLimits = 8
	// namePrefix avoids name clashes with limits of other quotas: of two limits with one name, one replaces the other.
	namePrefix = "eventratelimit-"
)

// quotaComment precedes the quota.
const quotaComment = `# Converted from an EventRateLimit configuration by eventquota convert.
# The limits apply to the whole cluster. EventRateLimit applies them in each API server.
# They also apply to Events of events.k8s.io, which EventRateLimit does not limit.
# Policies and the built-in default merge Events first. A merged Event takes no token.
# cacheSize has no counterpart.
`

// options are the flags of convert.
type options struct {
	Name   string
	Output string
}

// Command returns eventquota convert.
func Command() *cobra.Command {
	o := &options{Name: "eventratelimit", Output: output.YAML}
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Convert an EventRateLimit configuration to a quota",
		Long: `Convert reads the configuration of kube-apiserver's EventRateLimit plugin and
prints a ClusterEventQuota with the same limits.

FILE, or - for standard input, is one of these:

  an AdmissionConfiguration of apiserver.config.k8s.io/v1
      the file that the API server's --admission-control-config-file names. Convert
      finds EventRateLimit in it as the API server does: a path is relative to the
      file. It reports on standard error what it skips
  a Configuration of eventratelimit.admission.k8s.io/v1alpha1
      the file that such a path names

A limit of type Server becomes one bucket for the whole cluster. The other types have
a bucket for each namespace, each user, or each source and object. EventRateLimit
counts in each API server separately and does not limit Events of events.k8s.io. The
quota counts once for all API servers and limits those Events too. Policies and the
built-in default still merge and limit Events. A merged Event takes no token.`,
		Example: `  eventquota convert /etc/kubernetes/admission.yaml | kubectl apply -f -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("convert: name one file, or - for standard input, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if problems := validation.IsDNS1123Subdomain(o.Name); len(problems) > 0 {
				return fmt.Errorf("--name %q: %s", o.Name, strings.Join(problems, "; "))
			}
			if err := o.run(cmd, args[0]); err != nil {
				return fmt.Errorf("convert: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", o.Name, "name of the quota")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.YAML, output.JSON}, "format of the quota: yaml or json")
	return cmd
}

func (o *options) run(cmd *cobra.Command, path string) error {
	source, err := findConfiguration(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	limits := source.limits()
	if err := source.Err(); err != nil {
		return err
	}
	if len(source.skipped) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "skipped: %s\n", text.Sanitize(joinFirst(source.skipped)))
	}
	out := cmd.OutOrStdout()
	quota := struct { // without a status, which users do not apply
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string `json:"metadata"`
		Spec            v1alpha1.Budget   `json:"spec"`
	}{Metadata: map[string]string{"name": o.Name}, Spec: v1alpha1.Budget{Limits: limits}}
	quota.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterEventQuota))
	if o.Output == output.YAML {
		fmt.Fprint(out, quotaComment)
	}
	_, err = output.Write(out, o.Output, quota)
	return err
}

// limitTypes maps each type of limit of the plugin to a limit without values.
func limitTypes() map[string]v1alpha1.Limit {
	return map[string]v1alpha1.Limit{
		"Server":          {Name: "server"},
		"Namespace":       {Name: "namespace", Per: []v1alpha1.KeyPart{"Namespace"}},
		"User":            {Name: "user", Per: []v1alpha1.KeyPart{"User"}},
		"SourceAndObject": {Name: "source-and-object", Per: []v1alpha1.KeyPart{"Source", "InvolvedObject"}},
	}
}

// limits converts the limits of the plugin. It records an error for each limit that cannot be converted.
func (s *source) limits() (limits []v1alpha1.Limit) {
	list := strings.TrimPrefix(s.path+".limits", ".")
	if n := len(s.Limits); n < 1 || n > maxLimits {
		s.AddError(list, "must have at least 1 and at most %d limits, not %d", maxLimits, n)
		return nil
	}
	counts := map[string]int{} // by type
	for i, limit := range s.Limits {
		path := fmt.Sprintf("%s[%d]", list, i)
		converted, ok := limitTypes()[limit.Type]
		if !ok {
			s.AddError(path+".type", "%s", document.NotOneOf(limit.Type, slices.Sorted(maps.Keys(limitTypes()))))
		}
		converted.Name = namePrefix + converted.Name
		if counts[limit.Type]++; counts[limit.Type] > 1 {
			converted.Name += fmt.Sprint("-", counts[limit.Type])
		}
		converted.Burst, converted.Tokens, converted.WarningReservePercent = s.tokens(path+".burst", limit.Burst), s.tokens(path+".qps", limit.QPS), new(int32)
		converted.Interval = &v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Second}}
		limits = append(limits, converted)
	}
	return limits
}

// tokens checks a number of tokens and returns it.
func (s *source) tokens(path string, n int64) int32 {
	if n < 1 || n > maxBucket {
		s.AddError(path, "must be at least 1 and at most %d, not %d", maxBucket, n)
		return 0
	}
	return int32(n)
}
