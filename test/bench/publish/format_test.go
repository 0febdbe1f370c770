package publish

import (
	"errors"
	"strings"
	"testing"
	"text/template"
)

// executeTemplate parses and executes the text of a template.
func executeTemplate(t *testing.T, s figureSheet, text string) (string, error) {
	t.Helper()
	parsed, err := template.New("").Funcs(s.functions()).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = parsed.Execute(&out, nil)
	return out.String(), err
}

func TestFormats(t *testing.T) {
	s := figureSheet{
		record: Record{
			Origin: Origin{Commit: "0123456789abcdef", Machine: Machine{Cores: 2, CPU: "Fast", MemoryGiB: 16, Go: "1.26.0", Etcd: "3.7.0"}},
			Figures: map[string]float64{
				"rate": 1234567.5, "small": 0.446, "tie": 9.96, "slow": 2499.6, "bytes": 158.4e6, "few": 1.25e6, "none": 0, "edge": 999.5, "back": -1234.5,
			},
		},
		aims:     map[string]Aim{"small": {"small", "at least", 0.45, false}, "bytes": {"bytes", "at most", 200e6, true}},
		usedAims: map[string]bool{},
	}
	for text, want := range map[string]string{
		`{{fig "rate" | int}}`:                            "1,234,568",
		`{{fig "edge" | int}}`:                            "1,000",
		`{{fig "none" | int}}`:                            "0",
		`{{fig "small" | fixed 2}}`:                       "0.45",
		`{{fig "rate" | fixed 1}}`:                        "1,234,567.5",
		`{{fig "back" | fixed 1}}`:                        "-1,234.5",
		`{{fig "small" | ms}}`:                            "0.4 ms",
		`{{fig "tie" | ms}}`:                              "10 ms",
		`{{fig "slow" | ms}}`:                             "2,500 ms",
		`{{fig "bytes" | mb}}`:                            "158 MB",
		`{{fig "few" | mb}}`:                              "1.2 MB",
		`{{fig "rate" | plain}}, {{fig "small" | plain}}`: "1,234,567.5, 0.446",
		`{{aim "small"}}: {{met "small"}}`:                "at least 0.45: missed",
		`{{relation "bytes"}} {{bound "bytes" | mb}}: {{met "bytes"}}`: "at most 200 MB: met",
		`{{any "ra"}} {{any "x"}}`:                                     "true false",
		`{{commit}}`:                                                   "0123456789ab",
		`{{machine}}`:                                                  "2 cores (Fast), 16 GiB of memory, Go 1.26.0, etcd 3.7.0",
	} {
		if got, err := executeTemplate(t, s, text); err != nil || got != want {
			t.Errorf("%s: got %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestMissingFigureOrAim(t *testing.T) {
	s := figureSheet{record: Record{Figures: map[string]float64{"a": 1}}}
	for text, want := range map[string]string{`{{fig "bystander_x"}}`: "bystander_x", `{{met "bystander_x"}}`: "bystander_x"} {
		if _, err := executeTemplate(t, s, text); !errors.Is(err, errNoFigure) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want errNoFigure with %s", text, err, want)
		}
	}
	if _, err := executeTemplate(t, s, `{{aim "a"}}`); err == nil || !strings.Contains(err.Error(), "no aim for figure a") {
		t.Errorf("got error %v, want one about the missing aim for figure a", err)
	}
}

func TestUnterminatedBlock(t *testing.T) {
	blocks := template.Must(template.New("x").Parse(`{{define "one"}}new
{{end}}`))
	const begin, end = "<!-- figures: one -->\n", "<!-- end -->\n"
	got, names, err := render("before\n"+begin+"old\n"+end+"after\n", blocks)
	if err != nil || got != "before\n"+begin+"new\n"+end+"after\n" || len(names) != 1 {
		t.Errorf("got page %q with blocks %q (%v), want only block one to change", got, names, err)
	}
	for page, want := range map[string]string{
		begin + "old\n":                        `"one" has no end line`,
		begin + begin + end:                    `begins before block "one" ends`,
		"old\n" + end:                          "without a block before it",
		"<!-- figures: other -->\nold\n" + end: `"other" has no template`,
	} {
		if _, _, err := render(page, blocks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %s", page, err, want)
		}
	}
}
