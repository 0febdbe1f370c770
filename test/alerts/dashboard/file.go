package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// file is a dashboard as Grafana reads it.
type file struct {
	dashboard.Dashboard
	Annotations annotations `json:"annotations"` // in place of the Dashboard's
}

type annotations struct {
	List []annotation `json:"list"`
}

// annotation says what stands at a mark. Without these fields, which this release of the SDK
// does not know yet, Grafana's data source for Prometheus shows an empty box.
type annotation struct {
	dashboard.AnnotationQuery
	TitleFormat string `json:"titleFormat"`
	TagKeys     string `json:"tagKeys"` // labels, separated by commas
}

// newFile numbers the panels of a dashboard, leaves out what belongs to variables of
// another type, and shows links and annotations at the top, not in a menu.
func newFile(d dashboard.Dashboard) *file {
	for i := range d.Panels {
		id := uint32(i + 1)
		if p := d.Panels[i].Panel; p != nil {
			p.Id = &id
		} else {
			d.Panels[i].RowPanel.Id = id
		}
	}
	for i := range d.Templating.List {
		v := &d.Templating.List[i]
		v.Auto, v.AutoMin, v.AutoCount = nil, nil, nil
	}
	for i := range d.Links {
		d.Links[i].Placement = nil
	}
	f := &file{Dashboard: d}
	for _, a := range d.Annotations.List {
		a.Placement = nil
		f.Annotations.List = append(f.Annotations.List, annotation{
			AnnotationQuery: a, TitleFormat: "{{alertname}}", TagKeys: "event_namespace,priority_level,flow_schema,severity",
		})
	}
	return f
}
