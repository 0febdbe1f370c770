package admission

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// times decode times of any year. A client that writes protobuf may send one, and the
// API server spells it out in JSON, which the types' own decoders do not take then. They
// cost no allocation where those would cost some.
func times() *json.Unmarshalers {
	return json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *metav1.Time) error { return readTime(d, &t.Time) }),
		json.UnmarshalFromFunc(func(d *jsontext.Decoder, t *metav1.MicroTime) error { return readTime(d, &t.Time) }),
	)
}

func readTime(d *jsontext.Decoder, t *time.Time) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() == 'n' {
		*t = time.Time{}
		return nil
	}
	if t.UnmarshalJSON(value) == nil {
		return nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return err
	}
	*t, err = parseTime(string(text))
	return err
}

// farYears are as many as a calendar takes to repeat itself.
const farYears = 400

// farthest bounds the years that are told apart, so that no time overflows.
const farthest = 1_000_000_000

// parseTime parses a time of RFC 3339, with a year of any number of digits and a sign.
func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err == nil {
		return t, nil
	}
	sign, digits := 1, text
	if before, ok := strings.CutPrefix(text, "-"); ok {
		sign, digits = -1, before
	}
	digits, rest, _ := strings.Cut(digits, "-")
	spelled, notYear := strconv.ParseUint(digits, 10, 64)
	if notYear != nil {
		return time.Time{}, err
	}
	year := sign * int(min(spelled, farthest))
	like := 2000 + (year%farYears+farYears)%farYears
	if t, err = time.Parse(time.RFC3339, fmt.Sprint(like, "-", rest)); err != nil {
		return time.Time{}, err
	}
	return t.AddDate(year-like, 0, 0), nil
}
