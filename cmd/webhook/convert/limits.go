package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// What the schema of quotas allows.
const (
	maxBucket = 1_000_000 // burst, and tokens
	maxLimits = 8
)

// limitOf is what becomes of a type of limit.
func limitOf() map[string]v1alpha1.Limit {
	return map[string]v1alpha1.Limit{
		serverType:        {Name: "server"},
		"Namespace":       {Name: "namespace", Per: []v1alpha1.KeyPart{"Namespace"}},
		"User":            {Name: "user", Per: []v1alpha1.KeyPart{"User"}},
		"SourceAndObject": {Name: "source-and-object", Per: []v1alpha1.KeyPart{"Source", "InvolvedObject"}},
	}
}

// limitPrefix keeps the names of limits apart from others, which they would replace or be replaced by.
const limitPrefix = "eventratelimit-"

const serverType = "Server"

// conversion is the quota that stands for an EventRateLimit configuration.
type conversion struct {
	spec v1alpha1.Budget
	// notes say what is not carried over, a line each.
	notes []string
}

// convertLimits converts the limits of an object, which must be a configuration. Its errors name fields below at.
func convertLimits(at *field.Path, object runtime.Object) (*conversion, error) {
	from, ok := object.(*configuration)
	if !ok {
		return nil, wrongKind(at, object, "")
	}
	to := &conversion{}
	at = at.Child("limits")
	if len(from.Limits) == 0 {
		return nil, field.Required(at, "must have at least one limit")
	}
	var errs field.ErrorList
	var limits []rateLimit // without the sizes of their caches, no two of them are the same
	of := map[string]int{} // how many there are of each type
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
		limit := limitOf()[l.Type]
		limit.Name = limitPrefix + limit.Name
		if of[l.Type]++; of[l.Type] > 1 {
			limit.Name += fmt.Sprint("-", of[l.Type])
		}
		limit.Burst, limit.Tokens, limit.WarningReservePercent = int32(l.Burst), int32(l.QPS), new(int32)
		limit.Interval = &v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Second}}
		to.spec.Limits = append(to.spec.Limits, limit)
	}
	if len(limits) > maxLimits {
		errs = append(errs, field.TooMany(at, len(limits), maxLimits))
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, err
	}
	return to, nil
}

// check says what is wrong with l.
func (l *rateLimit) check(at *field.Path) (errs field.ErrorList) {
	if _, known := limitOf()[l.Type]; !known {
		errs = append(errs, field.NotSupported(at.Child("type"), l.Type, slices.Sorted(maps.Keys(limitOf()))))
	}
	between := func(name string, v, low, high int64) {
		if v < low || v > high {
			errs = append(errs, field.Invalid(at.Child(name), v, fmt.Sprintf("must be at least %d and at most %d", low, high)))
		}
	}
	between("qps", l.QPS, 1, maxBucket)
	between("burst", l.Burst, 1, maxBucket)
	// EventRateLimit does not look at that of type Server.
	if l.Type != serverType {
		between("cacheSize", l.CacheSize, 0, math.MaxInt32)
	}
	return errs
}

// write prints the quota. YAML has the notes as comments, beside JSON they go to standard error.
func (c *conversion) write(cmd *cobra.Command, o *options) error {
	quota := struct { // one without a status, as users apply it
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string `json:"metadata"`
		Spec            v1alpha1.Budget   `json:"spec"`
	}{Metadata: map[string]string{"name": o.Name}, Spec: c.spec}
	quota.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(v1alpha1.KindClusterEventQuota))
	if o.Output == output.JSON {
		for _, note := range c.notes {
			fmt.Fprintln(cmd.ErrOrStderr(), note)
		}
		_, err := output.Write(cmd.OutOrStdout(), output.JSON, quota)
		return err
	}
	document, err := yaml.Marshal(quota)
	if err != nil {
		return err
	}
	comments := append([]string{
		"The limits of an EventRateLimit configuration, made by eventquota convert.",
		"They are for the whole cluster; EventRateLimit has them for each API server.",
		"They are for Events of events.k8s.io too, which EventRateLimit lets pass.",
		"Policies merge Events before, the built-in default too: what is merged takes no token.",
	}, c.notes...)
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s", strings.Join(comments, "\n# "), document)
	return err
}
