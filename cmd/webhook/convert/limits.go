package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// What the schema of policies allows.
const (
	maxBucket = 1_000_000 // burst, and tokens
	maxQuotas = 8
)

// conversion is the policy that stands for an EventRateLimit configuration.
type conversion struct {
	spec v1alpha1.ClusterEventPolicySpec
	// notes say what is not carried over, a line each.
	notes []string
}

// convertLimits converts the limits in content. Its errors name fields below at.
func convertLimits(at *field.Path, content jsontext.Value) (*conversion, error) {
	var from rateLimits
	if err := decodeStrictly(at, content, &from); err != nil {
		return nil, err
	}
	to := &conversion{spec: v1alpha1.ClusterEventPolicySpec{
		CommonSpec: v1alpha1.CommonSpec{Action: v1alpha1.Action(policy.Admit)},
		Tier:       v1alpha1.TierAdmin,
	}}
	at = at.Child("limits")
	if len(from.Limits) == 0 {
		return nil, field.Required(at, "must have at least one limit")
	}
	var errs field.ErrorList
	var limits []rateLimit // without the sizes of their caches, no two of them are the same
	for i, l := range from.Limits {
		errs = append(errs, l.check(at.Index(i))...)
		if l.CacheSize != 0 {
			to.notes = append(to.notes, fmt.Sprintf(
				"%s: %d is not carried over: no number of buckets is set here.", at.Index(i).Child("cacheSize"), l.CacheSize))
			l.CacheSize = 0
		}
		if same := slices.Index(limits, l); same >= 0 {
			to.notes = append(to.notes, fmt.Sprintf(
				"%s: is not carried over: another limit is the same, so it limits no further.", at.Index(i)))
			continue
		}
		limits = append(limits, l)
		to.spec.Quotas = append(to.spec.Quotas, v1alpha1.ClusterQuota{
			Type: v1alpha1.ClusterQuotaType(l.Type),
			QuotaBucket: v1alpha1.QuotaBucket{
				Burst: int32(l.Burst), Tokens: int32(l.QPS), Interval: &metav1.Duration{Duration: time.Second},
			},
		})
	}
	if len(limits) > maxQuotas {
		errs = append(errs, field.TooMany(at, len(limits), maxQuotas))
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	return to, nil
}

// check says what is wrong with l.
func (l *rateLimit) check(at *field.Path) (errs field.ErrorList) {
	types := []policy.QuotaType{policy.QuotaServer, policy.QuotaNamespace, policy.QuotaUser, policy.QuotaSourceAndObject}
	if !slices.Contains(types, policy.QuotaType(l.Type)) {
		errs = append(errs, field.NotSupported(at.Child("type"), l.Type, types))
	}
	between := func(name string, v, low, high int64) {
		if v < low || v > high {
			errs = append(errs, field.Invalid(at.Child(name), v, fmt.Sprintf("must be at least %d and at most %d", low, high)))
		}
	}
	between("qps", l.QPS, 1, maxBucket)
	between("burst", l.Burst, 1, maxBucket)
	// EventRateLimit does not look at that of type Server.
	if l.Type != string(policy.QuotaServer) {
		between("cacheSize", l.CacheSize, 0, math.MaxInt32)
	}
	return errs
}

// write prints the policy. YAML has the notes as comments, beside JSON they go to standard error.
func (c *conversion) write(cmd *cobra.Command, o *options) error {
	policy := struct { // one without a status, as users apply it
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string               `json:"metadata"`
		Spec            v1alpha1.ClusterEventPolicySpec `json:"spec"`
	}{Metadata: map[string]string{"name": o.Name}, Spec: c.spec}
	policy.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterEventPolicy))
	if o.Output == output.JSON {
		for _, note := range c.notes {
			fmt.Fprintln(cmd.ErrOrStderr(), note)
		}
		_, err := output.Write(cmd.OutOrStdout(), output.JSON, policy, "  ")
		return err
	}
	document, err := yaml.Marshal(policy)
	if err != nil {
		return err
	}
	comments := append([]string{
		"The limits of an EventRateLimit configuration, made by eventquota convert.",
		"They are for the whole cluster; EventRateLimit has them for each API server.",
		"They are for Events of events.k8s.io too, which EventRateLimit lets pass.",
		"With action Limit, Events would be merged and limited by source, too.",
	}, c.notes...)
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s", strings.Join(comments, "\n# "), document)
	return err
}
