package simulate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// readList reads the items of a list, one at a time. Where it is no JSON any more, the rest counts as one
// broken item.
func (r *reader) readList(ctx context.Context, in io.Reader) error {
	p, number := parser{reader: r}, int64(0)
	for item, err := range items(newDecoder(in)) {
		number++
		var one parsed
		if err == nil {
			p.write = write{}
			one = p.finish(number, p.write.found(stored, item))
		} else if _, syntactic := errors.AsType[*jsontext.SyntacticError](err); syntactic {
			one = parsed{number: number, err: fmt.Errorf("the rest of the list is not read: %w", err)}
		} else {
			return fmt.Errorf("item %d: %w", number, err)
		}
		if err := cmp.Or(r.trace.add(r.file, &one), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// items are those of a list. After an error there are no more, as nothing says where the next one begins.
func items(d *jsontext.Decoder) iter.Seq2[jsontext.Value, error] {
	return func(yield func(jsontext.Value, error) bool) {
		_, err := d.ReadToken() // {
		for err == nil {
			var found bool
			if found, err = nextItems(d); !found {
				break
			}
			for d.PeekKind() != ']' {
				item, err := d.ReadValue()
				if !yield(item, err) || err != nil {
					return
				}
			}
			_, err = d.ReadToken() // ]
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// nextItems goes into the next array "items" of an object, or to the end of the object if there is none.
func nextItems(d *jsontext.Decoder) (found bool, err error) {
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return false, err
		}
		if name.String() == "items" && d.PeekKind() == '[' {
			_, err := d.ReadToken()
			return err == nil, err
		}
		if err := d.SkipValue(); err != nil {
			return false, err
		}
	}
	_, err = d.ReadToken() // }
	return false, err
}

// isList reports whether an input with this beginning is one object with items.
func isList(head []byte) bool {
	d := newDecoder(bytes.NewReader(head))
	if begin, err := d.ReadToken(); err != nil || begin.Kind() != '{' {
		return false
	}
	found, _ := nextItems(d) // an error says that it is none
	return found
}

func newDecoder(in io.Reader) *jsontext.Decoder {
	return jsontext.NewDecoder(in, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}
