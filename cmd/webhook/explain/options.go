package explain

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// options are the flags of explain.
type options struct {
	Replicas     replicas.Options
	Writers      []string
	WriterGroups []string
	Output       output.Format
}

func defaultOptions() *options {
	return &options{Replicas: replicas.NewOptions(), Output: output.Table}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	o.Replicas.AddFlags(f, true)
	f.StringArrayVar(&o.Writers, "writer", o.Writers, "user whose Events to look at; may be given several times; none for those that parts of Kubernetes are, by the source of an Event")
	f.StringSliceVar(&o.WriterGroups, "writer-groups", o.WriterGroups, "groups of each --writer; empty for those that the API server puts such a user into")
	f.VarP(&o.Output, "output", "o", "format of the report: table, wide for all Events rather than 30 of a source, json, yaml, or name for the names of Events")
}

func (o *options) validate() error {
	err := o.Replicas.Validate()
	if len(o.WriterGroups) > 0 && len(o.Writers) == 0 {
		return errors.Join(err, errors.New("--writer-groups: needs --writer"))
	}
	return err
}
