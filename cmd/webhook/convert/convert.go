// Package convert is the command that turns an EventRateLimit configuration into a quota.
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
	// maxBucket and maxLimits are what the schema of quotas allows.
	maxBucket = 1_000_000 // burst, and tokens
	maxLimits = 8
	// namePrefix keeps the names of limits apart from others, which they would replace or be replaced by.
	namePrefix = "eventratelimit-"
)

// quotaComment precedes the quota.
const quotaComment = `# The limits of an EventRateLimit configuration, made by eventquota convert.
# They are for the whole cluster; EventRateLimit has them for each API server.
# They are for Events of events.k8s.io too, which EventRateLimit lets pass.
# Policies merge Events before, the built-in default too: what is merged takes no token.
# A cacheSize has no counterpart, and is left out.
`

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

FILE is one of these; - reads standard input:

  an AdmissionConfiguration of apiserver.config.k8s.io/v1
      the file that the API server's --admission-control-config-file names. Convert
      finds EventRateLimit in it as API servers do, a path relative to the file, and
      says on standard error which other parts it passes over
  a Configuration of eventratelimit.admission.k8s.io/v1alpha1
      the file that such a path names

A limit of type Server becomes one bucket for the whole cluster; the others have one
for each namespace, user, or source and object. EventRateLimit counts in each API
server for itself, and lets Events of events.k8s.io pass; the quota has one count for
all API servers, and limits those Events too. The policies that govern merge and limit
Events beside it, the built-in default too; what is merged takes no token.`,
		Example: `  eventquota convert /etc/kubernetes/admission.yaml | kubectl apply -f -`,
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
			if err := o.run(cmd, args[0]); err != nil {
				return fmt.Errorf("convert: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", o.Name, "name of the quota")
	output.AddChoiceFlag(cmd, &o.Output, "output", "o", []string{output.YAML, output.JSON}, "format of the quota, yaml or json")
	return cmd
}

func (o *options) run(cmd *cobra.Command, path string) error {
	from, err := findConfiguration(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	limits := from.limits()
	if err := from.Err(); err != nil {
		return err
	}
	if len(from.skipped) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "passed over: %s\n", text.Sanitize(joinFirst(from.skipped)))
	}
	out := cmd.OutOrStdout()
	quota := struct { // without a status, as users apply it
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

// limitTypes is what becomes of a type of limit.
func limitTypes() map[string]v1alpha1.Limit {
	return map[string]v1alpha1.Limit{
		"Server":          {Name: "server"},
		"Namespace":       {Name: "namespace", Per: []v1alpha1.KeyPart{"Namespace"}},
		"User":            {Name: "user", Per: []v1alpha1.KeyPart{"User"}},
		"SourceAndObject": {Name: "source-and-object", Per: []v1alpha1.KeyPart{"Source", "InvolvedObject"}},
	}
}

// limits are limits of the same effect as those of the plugin. What cannot be one is noted.
func (s *source) limits() (limits []v1alpha1.Limit) {
	list := strings.TrimPrefix(s.path+".limits", ".")
	if n := len(s.Limits); n < 1 || n > maxLimits {
		s.AddError(list, "must have at least 1 and at most %d limits, not %d", maxLimits, n)
		return nil
	}
	of := map[string]int{} // how many there are of each type
	for i, one := range s.Limits {
		at := fmt.Sprintf("%s[%d]", list, i)
		made, ok := limitTypes()[one.Type]
		if !ok {
			s.AddError(at+".type", "%s", document.NotOneOf(one.Type, slices.Sorted(maps.Keys(limitTypes()))))
		}
		made.Name = namePrefix + made.Name
		if of[one.Type]++; of[one.Type] > 1 {
			made.Name += fmt.Sprint("-", of[one.Type])
		}
		made.Burst, made.Tokens, made.WarningReservePercent = s.tokens(at+".burst", one.Burst), s.tokens(at+".qps", one.QPS), new(int32)
		made.Interval = &v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Second}}
		limits = append(limits, made)
	}
	return limits
}

// tokens is a number of tokens.
func (s *source) tokens(at string, n int64) int32 {
	if n < 1 || n > maxBucket {
		s.AddError(at, "must be at least 1 and at most %d, not %d", maxBucket, n)
		return 0
	}
	return int32(n)
}
