package rules

import (
	"reflect"
	"slices"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// fill gives each exported field a value that no other has: n and on.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Array:
		v.Index(0).SetUint(uint64(*n))
	case reflect.String:
		v.SetString(string(rune('a' + *n)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		v.SetUint(uint64(*n) << (*n % 60))
	case reflect.Int, reflect.Int64:
		v.SetInt((*n << (*n % 50)) * (1 - 2*(*n%2)))
	default:
		panic("no value for a " + v.Type().String())
	}
}

// TestFieldsAreThoseOfTheTags compares what is encoded with what the tags say: with every field set, with none, and with
// each but one.
func TestFieldsAreThoseOfTheTags(t *testing.T) {
	full, n := Group{}, int64(0)
	fill(reflect.ValueOf(&full).Elem(), &n)
	groups := []Group{full, {}, {Records: make([]Record, 1), Similar: make([]Similar, 1), Buckets: make([]SpamBucket, 1), Names: make([]Name, 1), Notices: make([]Notice, 1), Seen: make([]Seen, 1)}}
	without := func(of func(g *Group) reflect.Value) {
		for i := range of(&full).NumField() {
			g := full.Clone()
			if v := of(g).Field(i); v.CanSet() {
				v.SetZero()
				groups = append(groups, *g)
			}
		}
	}
	without(func(g *Group) reflect.Value { return reflect.ValueOf(g).Elem() })
	without(func(g *Group) reflect.Value { return reflect.ValueOf(&g.Records[0]).Elem() })
	without(func(g *Group) reflect.Value { return reflect.ValueOf(&g.Records[0].Schedule).Elem() })
	without(func(g *Group) reflect.Value { return reflect.ValueOf(&g.Notices[1]).Elem() })
	without(func(g *Group) reflect.Value { return reflect.ValueOf(&g.Buckets[1].Level).Elem() })
	for i := range groups {
		g := &groups[i]
		encoded := g.Append(nil)
		var read Group
		if err := decoder.Unmarshal(encoded[1:], &read); err != nil {
			t.Fatalf("group %d: the library does not read it: %v", i, err)
		}
		unexported := cmpopts.IgnoreUnexported(Drops{})
		if diff := cmp.Diff(*g, read, unexported, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("group %d as the library reads it (-encoded +read):\n%s", i, diff)
		}
		tagged, err := cbor.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		if len(tagged) != len(encoded)-1 {
			t.Errorf("group %d has %d bytes, by the tags %d", i, len(encoded)-1, len(tagged))
		}
		c := coder{b: encoded[1:], decodes: true}
		var own Group
		if own.code(&c); c.failed || len(c.b) != 0 {
			t.Errorf("group %d is not read: failed %t, %d bytes left", i, c.failed, len(c.b))
		}
		if diff := cmp.Diff(read, own, unexported); diff != "" {
			t.Errorf("group %d (-library +own):\n%s", i, diff)
		}
	}
}

// TestWhatIsReadIsWhatTheLibraryReads changes each byte of a register. What is read without the library, it reads too, and as
// the same.
func TestWhatIsReadIsWhatTheLibraryReads(t *testing.T) {
	full, n := Group{}, int64(0)
	fill(reflect.ValueOf(&full).Elem(), &n)
	encoded := full.Append(nil)[1:]
	read := 0
	for i := range encoded {
		for _, flip := range []byte{1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xff} {
			changed := slices.Clone(encoded)
			changed[i] ^= flip
			c := coder{b: changed, decodes: true}
			var own, library Group
			if own.code(&c); c.failed || len(c.b) != 0 {
				continue
			}
			read++
			if err := decoder.Unmarshal(changed, &library); err != nil {
				t.Fatalf("byte %d ^ %#x: the library does not read it: %v", i, flip, err)
			}
			if !reflect.DeepEqual(library, own) {
				t.Fatalf("byte %d ^ %#x (-library +own):\n%s", i, flip, cmp.Diff(library, own, cmpopts.IgnoreUnexported(Drops{})))
			}
		}
	}
	if read < len(encoded) {
		t.Errorf("only %d changes of %d bytes were read without the library", read, len(encoded))
	}
}
