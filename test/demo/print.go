package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
)

// shown is how many Events are printed.
const shown = 25

// printEvents prints the Events of a namespace as kubectl does: the API server
// itself makes the table.
func printEvents(ctx context.Context, c *cluster.Cluster, w io.Writer, namespace string) error {
	config := rest.CopyConfig(c.Config)
	config.APIPath = "/api"
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	table := &metav1.Table{}
	err = client.Get().Namespace(namespace).Resource("events").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(ctx).Into(table)
	if err != nil {
		return fmt.Errorf("get events: %w", err)
	}
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row(out, table.ColumnDefinitions, func(i int) any { return table.ColumnDefinitions[i].Name })
	for _, r := range table.Rows[:min(shown, len(table.Rows))] {
		row(out, table.ColumnDefinitions, func(i int) any { return r.Cells[i] })
	}
	if more := len(table.Rows) - shown; more > 0 {
		fmt.Fprintf(out, "(and %d more)\n", more)
	}
	return out.Flush()
}

// row prints one row, without the columns that kubectl shows with -o wide only.
func row(w io.Writer, columns []metav1.TableColumnDefinition, cell func(int) any) {
	for i := range columns {
		if columns[i].Priority == 0 {
			fmt.Fprintf(w, "%v\t", cell(i))
		}
	}
	fmt.Fprintln(w)
}
