package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// report prints the medians of all rounds as tables.
type report struct {
	out     io.Writer
	medians figures
}

// table aligns the rows that rows passes to its argument. Tabs in the format separate cells.
func (r report) table(rows func(row func(format string, cells ...any))) {
	t := tabwriter.NewWriter(r.out, 0, 0, 3, ' ', 0)
	rows(func(format string, cells ...any) { fmt.Fprintf(t, format+"\n", cells...) })
	_ = t.Flush() // like fmt.Fprintf to a terminal
}

// api prints the figures of the scenarios on the API server.
func (r report) api(rounds []figures, o options) {
	fmt.Fprintf(r.out, "\nReal API server with %d writers, medians of %d rounds of %gs:\n\n", writers, o.rounds, o.seconds)
	r.table(func(row func(string, ...any)) {
		row("\trequests/s\tmin to max\tp50 ms\tp99 ms\tetcd proposals/1000\tAPI server us\twebhook us\tfailed calls")
		for _, s := range scenarios() {
			v := func(figure string) float64 { return r.medians[s.name+figure] }
			row("%s\t%.0f\t%s\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f", s.name, v("_per_s"), span(values(rounds, s.name+"_per_s")), v("_p50_ms"), v("_p99_ms"),
				v("_etcd_proposals_per_1000"), v("_apiserver_us"), v("_webhook_us"), sum(values(rounds, s.name+"_webhook_failures")))
		}
	})
}

// handlers prints the figures of the handlers alone.
func (r report) handlers(o options) {
	fmt.Fprintf(r.out, "\nHandlers alone, medians of %d rounds of %s:\n\n", o.rounds, o.handlerTime())
	r.table(func(row func(string, ...any)) {
		row("\tns\tallocations\tns over TLS")
		for _, c := range contenders() {
			v := func(figure string) float64 { return r.medians[c.name+figure] }
			row("%s\t%.0f\t%.0f\t%.0f", c.name, v("_ns"), v("_allocs"), v("_tls_ns"))
		}
	})
}

// policies prints the cost of finding the policy and quotas of an Event.
func (r report) policies(o options) {
	fmt.Fprintf(r.out, "\nFinding the policy and quotas of an Event among %d of each in a namespace and %d of each in the cluster, medians of %d rounds of %s:\n\n",
		ownRules, clusterRules, o.rounds, o.handlerTime())
	r.table(func(row func(string, ...any)) {
		row("\tnamespaces\tns\tallocations")
		for _, s := range policySets(o.namespaces) {
			row("%s\t%d\t%.0f\t%.0f", s.name, s.namespaces, r.medians[s.name+"_ns"], r.medians[s.name+"_allocs"])
		}
	})
}

// redis prints the figures of Redis.
func (r report) redis(o options) {
	fmt.Fprintf(r.out, "\nOne Redis, calls/s by number of concurrent callers, medians of %d rounds of %s:\n\n", o.rounds, o.redisTime())
	r.table(func(row func(string, ...any)) {
		row("\t%d\t%d\t%d", redisCallers()[0], redisCallers()[1], redisCallers()[2])
		for _, name := range redisContenders() {
			v := func(callers int) float64 { return r.medians[redisFigure(name, callers)] }
			row("redis_%s\t%.0f\t%.0f\t%.0f", name, v(redisCallers()[0]), v(redisCallers()[1]), v(redisCallers()[2]))
		}
	})
	fmt.Fprint(r.out, "\nProcessor time of a call in microseconds, Redis + this process, by number of concurrent callers:\n\n")
	r.table(func(row func(string, ...any)) {
		row("\t%d\t%d\t%d", redisCallers()[0], redisCallers()[1], redisCallers()[2])
		for _, name := range redisContenders() {
			v := func(callers int) string {
				return fmt.Sprintf("%.0f + %.0f", r.medians[redisTimeFigure(name, callers, "server")], r.medians[redisTimeFigure(name, callers, "caller")])
			}
			row("redis_%s\t%s\t%s\t%s", name, v(redisCallers()[0]), v(redisCallers()[1]), v(redisCallers()[2]))
		}
	})
	fmt.Fprintf(r.out, "\nMemory of Redis with %d sources and objects: %.0f bytes each.\n", o.objects, r.medians["redis_bytes_per_object"])
}

// complete returns an error if one of the scenarios has no figures because webhook calls failed in every round.
func (r report) complete(all []scenario) error {
	for _, s := range all {
		if _, measured := r.medians[s.name+"_per_s"]; !measured {
			return fmt.Errorf("%s: webhook calls failed in every round", s.name)
		}
	}
	return nil
}

// span returns the smallest and the largest value as text.
func span(values []float64) string {
	if len(values) == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f to %.0f", slices.Min(values), slices.Max(values))
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}
