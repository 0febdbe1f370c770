package main

// aim is what a figure should be at least or at most.
type aim struct {
	figure  string
	atLeast bool
	bound   float64
	over    string // a figure that the bound is added to; empty for none
}

func aims() []aim {
	return []aim{
		{"api_admit_over_noop", true, 0.95, ""},
		{"api_merge_over_deny", true, 0.95, ""},
		{"api_drop_over_deny", true, 0.95, ""},
		{"api_wide_etcd_proposals_per_1000", false, 5, "api_wide_tokens_per_1000"},
		{"handler_mutate_allocs", false, 40, ""},
		{"handler_validate_allocs", false, 40, ""},
		{"handler_mutate_over_default", false, 0.7, ""},
		{"handler_validate_over_default", false, 0.7, ""},
		{"policy_resolve_allocs", false, 0, ""},
		{"policy_resolve_growth", false, 1.2, ""},
		{"policy_resolve_conditional_allocs", false, 20, ""},
		{"redis_decide_over_rate_1", true, 1, ""},
		{"redis_decide_over_rate_32", true, 1.2, ""},
		{"redis_decide_over_rate_128", true, 1.5, ""},
		{"redis_decide3_over_rate_1", true, 0.6, ""},
		{"redis_decide3_over_rate_32", true, 0.8, ""},
		{"redis_decide3_over_rate_128", true, 1, ""},
		{"redis_hot_over_rate_32", true, 3, ""},
		{"redis_hot_over_rate_128", true, 10, ""},
		{"redis_hot3_over_rate_32", true, 1, ""},
		{"redis_hot3_over_rate_128", true, 3, ""},
		{"redis_quota3_over_rate_32", true, 0.8, ""},
		{"redis_quota3_over_rate_128", true, 1, ""},
		{"redis_bytes_per_object", false, 500, ""},
		{worstAttack, false, 3, ""},
		{"simulate_over_decode", true, 0.5, ""},
		{"simulate_rss_bytes", false, 200e6, ""},
	}
}

func (a aim) met(value float64) bool {
	if a.atLeast {
		return value >= a.bound
	}
	return value <= a.bound
}

// aims prints which aims were met, of those that were measured.
func (r report) aims() {
	r.table(func(row func(string, ...any)) {
		row("\nfigure\taim\tmeasured\t")
		for _, a := range aims() {
			value, measured := r.medians[a.figure]
			if !measured {
				continue
			}
			a.bound += r.medians[a.over]
			relation, outcome := "at most", "missed"
			if a.atLeast {
				relation = "at least"
			}
			if a.met(value) {
				outcome = "met"
			}
			row("%s\t%s %.3g\t%.3g\t%s", a.figure, relation, a.bound, value, outcome)
		}
	})
}
