package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// file is a dashboard as Grafana reads it.
type file struct {
	dashboard.Dashboard
	Annotations annotations `json:"annotations"` // replaces that of Dashboard
}

type annotations struct {
	List []annotation `json:"list"`
}

// annotation is an annotation query with the texts of its marks. The SDK does not have these fields yet. Without them,
// Grafana's data source for Prometheus shows an empty box.
type annotation struct {
	dashboard.AnnotationQuery
	TitleFormat string `json:"titleFormat"`
	TagKeys     string `json:"tagKeys"` // labels, separated by commas
}

// newFile numbers the panels of a dashboard, and removes fields that belong to variables of another type. It shows links and
// annotations at the top instead of in a menu.
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
