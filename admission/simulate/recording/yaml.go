package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// maxDocument is the maximum length of a YAML document in bytes. Decoding takes about twenty times as much memory.
const maxDocument = 64 << 20

// yaml reads YAML documents and converts them to JSON.
func (r *reader) yaml() error {
	all := utilyaml.NewYAMLReader(r.unpacked)
	for r.ctx.Err() == nil {
		document, err := all.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.noteTruncated(err)
		case bytes.HasPrefix(document, []byte("%")): // directives, which --- separates from their document
			continue
		}
		if err := r.document(document); err != nil {
			return err
		}
	}
	return r.ctx.Err()
}

func (r *reader) document(document []byte) error {
	if len(document) > maxDocument {
		r.count++
		return r.take(Entry{Number: r.count, Err: fmt.Errorf("the document has more than %d MiB: record it with -o json", maxDocument>>20)})
	}
	asJSON, err := yaml.YAMLToJSON(document)
	if err != nil {
		r.count++
		return r.take(Entry{Number: r.count, Err: errors.New("it is not YAML")})
	}
	if string(bytes.TrimSpace(asJSON)) == "null" { // it is empty, or has only comments
		return nil
	}
	return r.documents(bytes.NewReader(asJSON))
}
