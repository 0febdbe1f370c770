package feed

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ReadList asks for a list, and has each of its items taken in before the next one is read. An item is valid until take
// returns. So a list takes no more memory than the largest of its items, of which tenants decide how large they are.
func ReadList(ctx context.Context, r *rest.Request, take func(item []byte) error) (metav1.ListMeta, error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	list := &listReader{json.NewDecoder(body), take}
	read, err := list.read()
	if closed := body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("read a list: %w", err)
	}
	return read, nil
}

type listReader struct {
	*json.Decoder

	take func(item []byte) error
}

// read reads a list to its end. Its fields may be in any order.
func (l *listReader) read() (read metav1.ListMeta, err error) {
	if err := l.delim('{'); err != nil {
		return read, err
	}
	for l.More() {
		name, err := l.Token()
		switch {
		case err != nil:
		case name == "metadata":
			err = l.Decode(&read)
		case name == "items":
			err = l.items()
		default:
			err = l.Decode(&json.RawMessage{})
		}
		if err != nil {
			return read, err
		}
	}
	return read, l.delim('}')
}

// items reads the items, which are null for none, or a list.
func (l *listReader) items() error {
	if token, err := l.Token(); err != nil || token == nil {
		return err
	} else if token != json.Delim('[') {
		return l.unexpected(token)
	}
	var item json.RawMessage
	for l.More() {
		if err := l.Decode(&item); err != nil {
			return err
		}
		if err := l.take(item); err != nil {
			return err
		}
	}
	return l.delim(']')
}

func (l *listReader) delim(want json.Delim) error {
	token, err := l.Token()
	if err == nil && token != want {
		return l.unexpected(token)
	}
	return err
}

func (l *listReader) unexpected(token json.Token) error {
	return fmt.Errorf("it is no list: %v before byte %d", token, l.InputOffset())
}
