package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
)

// maxPrintedEvents limits the Events of one table.
const maxPrintedEvents = 12

// messageColumns is the width of the message column.
const messageColumns = 60

// printEvents prints a table of Events for each field selector.
func printEvents(ctx context.Context, c *cluster.Cluster, w io.Writer, namespace string, selectors []string) error {
	config := rest.CopyConfig(c.Config)
	config.APIPath = "/api"
	config.GroupVersion = &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	for _, selector := range selectors {
		if err := printSelected(ctx, client, w, namespace, selector); err != nil {
			return err
		}
	}
	return nil
}

// printSelected prints a table of Events as kubectl does: the API server renders it.
func printSelected(ctx context.Context, client rest.Interface, w io.Writer, namespace, selector string) error {
	table := &metav1.Table{}
	err := client.Get().Namespace(namespace).Resource("events").
		Param("fieldSelector", selector).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(ctx).Into(table)
	if err != nil {
		return fmt.Errorf("get events: %w", err)
	}
	count := slices.IndexFunc(table.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == "Count" })
	slices.SortStableFunc(table.Rows, func(a, b metav1.TableRow) int { return numberIn(b.Cells[count]) - numberIn(a.Cells[count]) })
	fmt.Fprintf(w, "\n$ kubectl get events -n %s --field-selector %s   # most frequent first, with their counts\n", namespace, selector)
	out := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	printRow(out, table.ColumnDefinitions, func(i int) any { return strings.ToUpper(table.ColumnDefinitions[i].Name) })
	for _, r := range table.Rows[:min(maxPrintedEvents, len(table.Rows))] {
		printRow(out, table.ColumnDefinitions, func(i int) any { return r.Cells[i] })
	}
	if more := len(table.Rows) - maxPrintedEvents; more > 0 {
		fmt.Fprintf(out, "(and %d more)\n", more)
	}
	return out.Flush()
}

// numberIn returns the number in a cell.
func numberIn(cell any) int {
	n, _ := strconv.Atoi(fmt.Sprint(cell))
	return n
}

// printRow prints the columns that kubectl prints without -o wide, and the count.
func printRow(w io.Writer, columns []metav1.TableColumnDefinition, cell func(int) any) {
	var cells []string
	for i, column := range columns {
		if column.Priority != 0 && column.Name != "Count" {
			continue
		}
		text := []rune(fmt.Sprint(cell(i)))
		if len(text) > messageColumns {
			text = append(text[:messageColumns-1], '…')
		}
		cells = append(cells, string(text))
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}
