package main

import "github.com/eventquota/eventquota/test/bench/publish"

// aim is a lower or upper bound that a figure should meet.
type aim struct {
	figure  string
	atLeast bool
	bound   float64
	over    string // name of a measured figure that is added to bound; may be empty
}

func aims() []aim {
	return []aim{
		{"api_admit_over_noop", true, 0.97, ""},
		{"api_merge_over_deny", true, 0.97, ""},
		{"api_drop_over_refuse", true, 0.97, ""},
		{"api_drop_sink_over_drop", true, 0.95, ""},
		{"serial_admit_over_none", true, 0.92, ""},
		{"serial_admit_above_none_ms", false, 0.4, ""},
		{"serial_redis_above_none_ms", false, 0.7, ""},
		{"api200_lane_drop_over_lane_deny", true, 0.9, ""},
		{"api200_lane_drop_over_drop", true, 1.3, ""},
		{"bystander_both_over_quiet", false, 10, ""},
		{"bystander_none_over_both", true, 10, ""},
		{"bystander_nodes_both_over_quiet", false, 10, ""},
		{"bystander_nodes_none_over_both", true, 1, ""},
		{"api_wide_etcd_proposals_per_1000", false, 5, "api_wide_tokens_per_1000"},
		{"handler_mutate_allocs", false, 37, ""},
		{"handler_validate_allocs", false, 38, ""},
		{"handler_mutate_over_default", false, 0.7, ""},
		{"handler_validate_over_default", false, 0.7, ""},
		{"policy_resolve_allocs", false, 0, ""},
		{"policy_resolve_growth", false, 1.2, ""},
		{"policy_resolve_conditional_allocs", false, 16, ""},
		{"redis_decide_over_rate_1", true, 1, ""},
		{"redis_decide_over_rate_32", true, 0.9, ""},
		{"redis_decide_over_rate_128", true, 1.1, ""},
		{"redis_decide3_over_rate_1", true, 0.6, ""},
		{"redis_decide3_over_rate_32", true, 0.7, ""},
		{"redis_decide3_over_rate_128", true, 0.9, ""},
		{"redis_hot_over_rate_32", true, 2, ""},
		{"redis_hot_over_rate_128", true, 4, ""},
		{"redis_hot3_over_rate_32", true, 1, ""},
		{"redis_hot3_over_rate_128", true, 2, ""},
		{"redis_quota3_over_rate_32", true, 1, ""},
		{"redis_quota3_over_rate_128", true, 1.3, ""},
		{"redis_decide_server_over_rate_32", false, 1.2, ""},
		{"redis_decide_server_over_rate_128", false, 1.2, ""},
		{"redis_decide_caller_over_rate_32", false, 1.3, ""},
		{"redis_decide_caller_over_rate_128", false, 1.3, ""},
		{"redis_bytes_per_object", false, 500, ""},
		{worstAttack, false, 3, ""},
		{slowestInForce, false, 1000, ""},
		{"simulate_over_decode", true, 0.3, ""},
		{"simulate_rss_bytes", false, 200e6, ""},
	}
}

func (a aim) isMet(value float64) bool {
	if a.atLeast {
		return value >= a.bound
	}
	return value <= a.bound
}

// aimResults compares the measured figures with their aims. It skips aims whose figure was not measured.
func aimResults(measured figures) (all []publish.Aim) {
	for _, a := range aims() {
		value, ok := measured[a.figure]
		if !ok {
			continue
		}
		a.bound += measured[a.over]
		relation := "at most"
		if a.atLeast {
			relation = "at least"
		}
		all = append(all, publish.Aim{Figure: a.figure, Relation: relation, Bound: a.bound, Met: a.isMet(value)})
	}
	return all
}

// aims prints a table of the measured figures that have an aim.
func (r report) aims() {
	r.table(func(row func(string, ...any)) {
		row("\nfigure\taim\tmeasured\t")
		for _, a := range aimResults(r.medians) {
			row("%s\t%s %.3g\t%.3g\t%s", a.Figure, a.Relation, a.Bound, r.medians[a.Figure], a.Outcome())
		}
	})
}
