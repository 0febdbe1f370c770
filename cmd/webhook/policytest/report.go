package policytest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// Report has the results of all files.
type Report struct {
	Files []*File `json:"files"`
	// Passed and Failed count tests, and Invalid counts files.
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Invalid int `json:"invalidFiles"`
}

// File has the results of a file.
type File struct {
	Name string `json:"file"`
	// Errors says why the file is not valid. Then none of its tests runs.
	Errors []string  `json:"errors,omitempty"`
	Tests  []*Result `json:"tests,omitempty"`
}

// err returns nil if all files are valid and all tests passed.
func (r *Report) err() error {
	var problems []string
	if r.Invalid > 0 {
		problems = append(problems, countText(r.Invalid, "file is", "files are")+" not valid")
	}
	if r.Failed > 0 {
		problems = append(problems, fmt.Sprintf("%d of %s failed", r.Failed, countText(r.Failed+r.Passed, "test", "tests")))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("test: %s", strings.Join(problems, ", "))
}

func countText(n int, singular, plural string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprint(n, " ", plural)
}

// The formats besides JSON.
const (
	formatText  = "text"
	formatJUnit = "junit"
)

// write writes the report in a format.
func (r *Report) write(w io.Writer, format string) error {
	switch format {
	case output.JSON:
		_, err := output.Write(w, output.JSON, r)
		return err
	case formatJUnit:
		return r.writeJUnit(w)
	}
	return r.writeText(w)
}

// writeText writes a line for each test, followed by its failures.
func (r *Report) writeText(w io.Writer) error {
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(text.Sanitize(strings.Join(parts, "")) + "\n") }
	for _, f := range r.Files {
		for _, err := range f.Errors {
			line("FAILED  ", err)
		}
		for _, t := range f.Tests {
			status := "ok      "
			if !t.Passed {
				status = "FAILED  "
			}
			line(status, f.Name, ": ", t.Name)
			for _, failure := range t.Failures {
				line("        ", failure)
			}
		}
	}
	summary := fmt.Sprintf("%s in %s: %d ok, %d failed", countText(r.Passed+r.Failed, "test", "tests"), countText(len(r.Files), "file", "files"), r.Passed, r.Failed)
	if r.Invalid > 0 {
		summary += ", " + countText(r.Invalid, "file is", "files are") + " not valid"
	}
	line(summary)
	_, err := io.WriteString(w, b.String())
	return err
}

// The elements of JUnit's XML that CI systems read.
type (
	junitReport struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}
	junitCounts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	junitSuite struct {
		Name string `xml:"name,attr"`
		junitCounts
		Cases []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// problemOf returns the failures or errors of a case. The first one is the message.
func problemOf(messages []string) *junitProblem {
	all := make([]string, len(messages))
	for i, message := range messages {
		all[i] = text.Sanitize(message)
	}
	return &junitProblem{all[0], strings.Join(all, "\n")}
}

func (r *Report) writeJUnit(w io.Writer) error {
	report := junitReport{junitCounts: junitCounts{r.Passed + r.Failed + r.Invalid, r.Failed, r.Invalid}}
	for _, f := range r.Files {
		s := junitSuite{Name: text.Sanitize(f.Name)}
		if len(f.Errors) > 0 {
			s.Errors = 1
			s.Cases = append(s.Cases, junitCase{Name: "the file is valid", Class: s.Name, Error: problemOf(f.Errors)})
		}
		for _, t := range f.Tests {
			c := junitCase{Name: text.Sanitize(t.Name), Class: s.Name}
			if !t.Passed {
				s.Failures++
				c.Failure = problemOf(t.Failures)
			}
			s.Cases = append(s.Cases, c)
		}
		s.Tests = len(s.Cases)
		report.Suites = append(report.Suites, s)
	}
	document, err := xml.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(document)+"\n")
	return err
}
