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
		case len(bytes.TrimSpace(document)) == 0:
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
	return r.documents(bytes.NewReader(asJSON))
}
