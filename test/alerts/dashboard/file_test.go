package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestFileMatchesGrafanaSchema decodes the dashboard strictly by the published schema, from which the SDK is generated. No
// field may be unknown, missing or of another type, and no value out of its range.
func TestFileMatchesGrafanaSchema(t *testing.T) {
	_, content := read(t)
	// Fields that the SDK does not know yet; see annotation.
	var fields map[string]any
	if err := json.Unmarshal([]byte(content), &fields); err != nil {
		t.Fatal(err)
	}
	for _, a := range fields["annotations"].(map[string]any)["list"].([]any) {
		delete(a.(map[string]any), "titleFormat")
		delete(a.(map[string]any), "tagKeys")
	}
	known, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	plugins.RegisterDefaultPlugins()
	d := &dashboard.Dashboard{}
	if err := errors.Join(d.UnmarshalJSONStrict(known), d.Validate()); err != nil {
		t.Fatal(err)
	}
	if *d.Uid != "eventquota" || *d.Title != "eventquota" {
		t.Errorf("the dashboard is %s (%s)", *d.Title, *d.Uid)
	}
}

// TestPanelsAreDescribed checks rules of this dashboard that the schema does not have.
func TestPanelsAreDescribed(t *testing.T) {
	const columns = 24
	b, content := read(t)
	const most = 256 << 10 // of all annotations of an object; kubectl stores the applied object in one
	if info, err := os.Stat(dashboardFile); err != nil || info.Size() > most/2 {
		t.Errorf("the file has %d bytes (%v), too many for a ConfigMap that kubectl applies", len(content), err)
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if other, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("%s has the id %d, as %s", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, twice := taken[[2]int{x, y}]; twice || x >= columns {
					t.Fatalf("%s overlaps %s, or is outside the grid", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("%s lacks a title, description, unit or query", p.Title)
		}
		for _, to := range p.Targets {
			if to.Datasource.UID != "${datasource}" || p.Datasource.UID != "${datasource}" {
				t.Errorf("%s does not use the selected data source", p.Title)
			}
		}
	}
}
