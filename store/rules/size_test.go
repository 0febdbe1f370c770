package rules_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/store/rules"
)

// Whatever a register is made of, and however large its numbers are, it takes no more than the estimate.
func TestTheEstimateOfARegisterIsNeverTooLow(t *testing.T) {
	for _, of := range []string{"nothing else", "Records", "Similar", "Buckets", "Names", "Notices", "Seen"} {
		t.Run(of, func(t *testing.T) {
			var g rules.Group
			v := reflect.ValueOf(&g).Elem()
			filled(v, 30)
			for field, f := range v.Fields() {
				if f.Kind() == reflect.Slice && field.Name != of {
					f.SetZero()
				}
			}
			for i := range g.Records {
				g.Records[i].Doublings = 40 // there are no more
			}
			b, err := g.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if most := int(g.Size()); len(b) > most {
				t.Errorf("%d bytes encoded, want %d at most", len(b), most)
			}
		})
	}
}

// filled sets all there is in v to the largest there is, with n elements in each slice.
func filled(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		v.SetInt(math.MaxInt64)
	case reflect.Uint64:
		v.SetUint(math.MaxUint64)
	case reflect.Uint8:
		v.SetUint(math.MaxUint8)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(strings.Repeat("x", 300))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			filled(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			filled(v.Index(i), n)
		}
	case reflect.Struct:
		for field, f := range v.Fields() {
			if field.IsExported() { // what is encoded
				filled(f, n)
			}
		}
	default:
		panic(v.Kind())
	}
}
