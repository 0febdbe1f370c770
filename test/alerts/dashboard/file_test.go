package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func TestTheFileIsWhatIsGenerated(t *testing.T) {
	want, err := encoded()
	if err != nil {
		t.Fatal(err)
	}
	_, got := read(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("`make generate` makes another file (-generated +in the checkout):\n%s", diff)
	}
}

// strictly decodes a dashboard by Grafana's published schema, from which the SDK is made: no
// field is unknown, none of another type, none missing, no value out of its range.
func strictly(t *testing.T, content []byte) (*dashboard.Dashboard, error) {
	t.Helper()
	// What the SDK does not know yet, see annotation.
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	for _, a := range fields["annotations"].(map[string]any)["list"].([]any) {
		delete(a.(map[string]any), "titleFormat")
		delete(a.(map[string]any), "tagKeys")
	}
	content, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	plugins.RegisterDefaultPlugins()
	d := &dashboard.Dashboard{}
	if err := d.UnmarshalJSONStrict(content); err != nil {
		return nil, err
	}
	return d, d.Validate()
}

func TestTheFileHoldsToGrafanasSchema(t *testing.T) {
	_, content := read(t)
	d, err := strictly(t, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	if *d.Uid != "eventquota" || *d.Title != "eventquota" {
		t.Errorf("the dashboard is %s (%s)", *d.Title, *d.Uid)
	}
	for says, breaks := range map[string][2]string{
		"a field that is not known":                {`"schemaVersion":`, `"schemaVersions":`},
		"an option that its type of panel has not": {`"colorMode":`, `"colourMode":`},
		"a query's field that is not known":        {`"legendFormat":`, `"legend":`},
		"a mode of thresholds that is none":        {`"mode": "absolute"`, `"mode": 1`},
		"a panel wider than the grid":              {`"w": 12`, `"w": 25`},
	} {
		broken := strings.Replace(content, breaks[0], breaks[1], 1)
		if _, err := strictly(t, []byte(broken)); broken == content || err == nil {
			t.Errorf("%s is taken", says)
		}
	}
}

// TestEveryPanelSaysWhatItShows holds what the schema does not ask for.
func TestEveryPanelSaysWhatItShows(t *testing.T) {
	const columns = 24
	b, content := read(t)
	const most = 256 << 10 // of all annotations of an object, among which kubectl keeps what was applied
	if info, err := os.Stat(shipped); err != nil || info.Size() > most/2 {
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
					t.Fatalf("%s lies over %s, or out of the grid", p.Title, other)
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
				t.Errorf("%s asks another data source than the one that is chosen", p.Title)
			}
		}
	}
}
